// What waits for people: who asked, what it may cost, who said what, and until when.
import { html } from "../html.js";
import { get } from "../api.js";
import { approve, deny } from "../actions.js";
import { ask } from "../ask.js";
import { ago, moment, usd, who } from "../format.js";
import { params, set } from "../route.js";
import { Choice, Empty, Loading, Scroll, Title, Trouble, useLive } from "../ui.js";

const states = ["pending", "approved", "denied", "expired", "used", "withdrawn"];
const colors = { pending: "busy", approved: "live", used: "good", denied: "bad", expired: "bad" };

export function Approvals() {
  const given = params.value;
  const asked = { limit: 100, state: given.get("state"), nextToken: given.get("page") };
  const [page, error] = useLive((stop) => get("/v1/approvals", asked, { signal: stop }),
    [JSON.stringify(asked)], 5);
  const found = page?.approvals || [];
  return html`<header class="head"><${Title}>Approvals<//></header>
    <form class="filters" role="search" aria-label="Approvals"
      onSubmit=${(event) => event.preventDefault()}>
      <${Choice} name="state" label="State" value=${asked.state} options=${states} /></form>
    <${Trouble} error=${error} />${!page && !error && html`<${Loading} />`}
    ${page && !found.length && html`<${Empty} title="Nothing waits for people"
      >Runs that may cost much wait here, if this stack has a limit for them.<//>`}
    ${found.length > 0 && html`<${Scroll}><table><thead><tr><th>What</th><th>Your word</th>
      <th>State</th><th>Why</th><th>Asked by</th><th class="number">At most</th>
      <th>Approved by</th><th>Until</th></tr></thead>
      <tbody>${found.map((one) => html`<${Row} key=${one.id}
        one=${one} />`)}</tbody></table><//>
      <p class="pager">${page.nextToken && html`<button type="button"
        onClick=${() => set({ page: page.nextToken })}>Older</button>`}</p>`}`;
}

const votes = (one) => `${one.approvers.length} of ${one.needed}`;
const said = (vote) => `${who(vote.by)}${vote.reason ? `: ${vote.reason}` : ""}`;

function Row({ one }) {
  const waits = one.state === "pending";
  return html`<tr><th scope="row"><a href=${`/runs/${encodeURIComponent(one.runId)}`}
      >${one.runName || one.subject}</a><div class="reason">${one.runName && one.runId}</div>
      <div class="reason">${ago(one.createdAt)}</div></th>
    <td>${waits && html`<span class="acts"><button type="button" class="small"
        onClick=${() => ask(approve(one))} aria-label=${`Approve ${one.subject}`}>Approve</button>
      <button type="button" class="small" onClick=${() => ask(deny(one))}
        aria-label=${`Deny ${one.subject}`}>Deny</button></span>`}</td>
    <td><span class="status ${colors[one.state] || "quiet"}"><i aria-hidden="true"></i
      >${one.state}</span></td>
    <td class="wide">${one.because}</td>
    <td title=${one.requester?.arn}>${who(one.requester)}</td>
    <td class="number">${one.usd == null ? "not known" : usd(one.usd)}</td>
    <td class="wide">${votes(one)}${one.approvers.map((vote) => html`<div class="reason"
      >${said(vote)}</div>`)}${one.denied && html`<div class="reason">denied by
      ${" "}${said(one.denied)}</div>`}</td>
    <td>${moment(one.expiresAt)}</td></tr>`;
}
