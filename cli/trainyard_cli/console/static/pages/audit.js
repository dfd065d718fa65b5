// Who changed what, and what became of it.
import { html } from "../html.js";
import { get } from "../api.js";
import { moment, tone, who } from "../format.js";
import { params, set } from "../route.js";
import { Empty, Filter, Loading, Scroll, Title, Trouble, useLive } from "../ui.js";

const colors = { done: "good", refused: "bad", failed: "bad", decided: "live", asked: "busy" };

export function Audit() {
  const given = params.value;
  const asked = {
    limit: 100,
    who: given.get("who"),
    what: given.get("what"),
    subject: given.get("subject"),
    nextToken: given.get("page"),
  };
  const [page, error] = useLive((stop) => get("/v1/audit", asked, { signal: stop }),
    [JSON.stringify(asked)], 10);
  const found = page?.entries || [];
  return html`<header class="head"><${Title}>Audit<//></header>
    <form class="filters" role="search" aria-label="Audit"
      onSubmit=${(event) => event.preventDefault()}>
      <${Filter} name="who" label="Who" value=${asked.who} placeholder="name or ARN" />
      <${Filter} name="what" label="What" value=${asked.what} placeholder="run.cancel" />
      <${Filter} name="subject" label="Of what" value=${asked.subject} placeholder="run/run-…" />
    </form>
    <${Trouble} error=${error} />${!page && !error && html`<${Loading} />`}
    ${page && !found.length && html`<${Empty} title="Nothing is found" />`}
    ${found.length > 0 && html`<${Scroll}><table><thead><tr><th>When</th><th>Who</th><th>What</th>
      <th>Of what</th><th>Outcome</th><th>Why</th></tr></thead><tbody>${found.map((one) => html`<tr
        key=${one.id}><td>${moment(one.at)}</td>
        <td title=${one.who?.arn}>${one.who ? who(one.who) : "Trainyard"}</td>
        <td><code>${one.what}</code></td><td><${Subject} of=${one.subject} /></td>
        <td><span class="status ${colors[one.outcome] || tone(one.outcome)}">
          <i aria-hidden="true"></i>${one.outcome}</span></td>
        <td class="wide">${[one.reason, one.detail].filter(Boolean).join(" — ")}</td></tr>`)}
      </tbody></table><//>
      <p class="pager">${page.nextToken && html`<button type="button"
        onClick=${() => set({ page: page.nextToken })}>Older</button>`}</p>`}`;
}

function Subject({ of }) {
  const [kind, name] = of.split("/");
  const pages = { run: "runs", cluster: "clusters" };
  return pages[kind] && name
    ? html`<a href=${`/${pages[kind]}/${encodeURIComponent(name)}`}>${of}</a>`
    : html`<code>${of}</code>`;
}
