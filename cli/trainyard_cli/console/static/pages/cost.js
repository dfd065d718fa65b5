// What runs cost, by owner, cluster, run or label, and how much of it trained.
import { html } from "../html.js";
import { get } from "../api.js";
import { number, usd, who } from "../format.js";
import { params, set } from "../route.js";
import { Empty, Fact, Filter, Loading, Scroll, Title, Trouble, useLive } from "../ui.js";

const days = [["1", "a day"], ["7", "a week"], ["30", "30 days"], ["90", "90 days"]];
const ways = [["owner", "Owner"], ["cluster", "Cluster"], ["run", "Run"], ["label", "Label"]];

const percent = (one) => `${Math.round((100 * one.usefulUsd) / one.usd)} %`;

const pageOf = { run: "runs", cluster: "clusters" };

function Key({ by, of }) {
  if (!of) return "(none)";
  if (by === "owner") return html`<span title=${of}>${who(of)}</span>`;
  return pageOf[by] ? html`<a href=${`/${pageOf[by]}/${encodeURIComponent(of)}`}>${of}</a>` : of;
}

export function Costs() {
  const given = params.value;
  const by = given.get("by") || "owner";
  const last = given.get("days") || "30";
  const label = given.get("label") || "team";
  const since = new Date(Date.now() - last * 86400e3).toISOString().slice(0, 10);
  const asked = { by: by === "label" ? `label:${label}` : by, since: `${since}T00:00:00Z` };
  const [found, error] = useLive((stop) => get("/v1/costs", asked, { signal: stop }),
    [JSON.stringify(asked)], 60);
  const totals = found?.totals || [];
  const sum = (name) => totals.reduce((all, one) => all + (one[name] || 0), 0);
  const dearest = Math.max(...totals.map((one) => one.usd), 0.000001);
  return html`<header class="head"><${Title}>Cost<//></header>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label class="field"><span>By</span><select value=${by}
        onChange=${(event) => set({ by: event.target.value })}>${ways.map(([id, words]) =>
          html`<option value=${id}>${words}</option>`)}</select></label>
      ${by === "label" && html`<${Filter} name="label" label="Key of the label" value=${label} />`}
      <label class="field"><span>Runs of the last</span><select value=${last}
        onChange=${(event) => set({ days: event.target.value })}>${days.map(([id, words]) =>
          html`<option value=${id}>${words}</option>`)}</select></label></form>
    <${Trouble} error=${error} />${!found && !error && html`<${Loading} />`}
    ${found && html`<dl class="facts"><${Fact} name="Cost">${usd(sum("usd"))}<//>
      <${Fact} name="That trained">${usd(sum("usefulUsd"))}<//>
      <${Fact} name="Waste">${usd(sum("usd") - sum("usefulUsd"))}<//>
      <${Fact} name="Runs">${number(sum("runs"))}<//>
      <${Fact} name="Without a price">${number(sum("unpriced"))}<//></dl>`}
    ${found && !totals.length && html`<${Empty} title="No run in this time" />`}
    ${totals.length > 0 && html`<${Scroll}><table><thead><tr>
      <th>${ways.find(([id]) => id === by)?.[1]}</th><th><span class="unseen">Share</span></th>
      <th class="number">Cost</th><th class="number">Trained</th><th class="number">Runs</th>
      <th class="number">Node hours</th></tr></thead><tbody>${totals.map((one) => html`<tr>
        <th scope="row"><${Key} by=${by} of=${one.key} /></th>
        <td class="bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
          <rect class="waste" height="8" width=${(100 * one.usd) / dearest} />
          <rect class="useful" height="8" width=${(100 * one.usefulUsd) / dearest} /></svg></td>
        <td class="number">${usd(one.usd)}</td>
        <td class="number">${one.usd ? percent(one) : "–"}</td>
        <td class="number">${one.runs}</td>
        <td class="number">${number(one.nodeSeconds / 3600, 3)}</td></tr>`)}</tbody></table><//>
      <p class="quiet note">Idle time of shared clusters is not in it; a cluster's own page has it.
        ${found.leftOut && " More runs are there than were looked at: choose a shorter time."}
      </p>`}`;
}
