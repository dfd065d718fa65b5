// All runs, as they are found by the filters in the address.
import { useEffect, useState } from "preact/hooks";
import { html } from "../html.js";
import { get, poll, segment } from "../api.js";
import { ago, moment, number, over, usd, who } from "../format.js";
import { go, params, set } from "../route.js";
import { Choice, Empty, Filter, Loading, Scroll, Status, Title, Trouble, useLive } from "../ui.js";

const statuses = [
  "Pending", "Waiting", "Provisioning", "Submitting", "Running", "Recovering", "WaitingForNode",
  "Exporting", "TearingDown", "Succeeded", "Failed", "Cancelled",
];
// Runs of a list whose newest step, nodes and price are asked for one by one.
const mostAsked = 12;
const nowSeconds = 5;
const priceSeconds = 60;

const filters = () => {
  const given = params.value;
  return {
    limit: 50,
    status: given.get("status"),
    name: given.get("name"),
    label: given.get("label"),
    cluster: given.get("cluster"),
    mine: given.get("mine"),
    nextToken: given.get("page"),
  };
};

// The newest sample and the price of the first runs that go on.
function useNow(ids) {
  const [found, change] = useState({});
  useEffect(() => {
    const asked = new Map();
    return poll(async (stop) => {
      const parts = await Promise.all(ids.map(async (id) => {
        try {
          const run = await get(`/v1/runs/${segment(id)}`, {}, { signal: stop });
          const last = asked.get(id);
          let cost = last?.cost;
          if (!last || Date.now() - last.at > priceSeconds * 1000) {
            cost = await get(`/v1/runs/${segment(id)}/cost`, {}, { signal: stop });
            asked.set(id, { at: Date.now(), cost });
          }
          return [id, { latest: run.latest, nodes: run.attempts.at(-1)?.nodes.length, cost }];
        } catch (error) {
          if (error.status === 404) return [id, {}];
          throw error;
        }
      }));
      if (!stop.aborted) change(Object.fromEntries(parts));
      return ids.length ? undefined : false;
    }, nowSeconds);
  }, [ids.join()]);
  return found;
}

export function Runs() {
  const asked = filters();
  const key = JSON.stringify(asked);
  const [page, error] = useLive((stop) => get("/v1/runs", asked, { signal: stop }), [key], 4);
  const runs = page?.runs || [];
  const now = useNow(runs.filter((run) => !over(run.status)).slice(0, mostAsked).map((r) => r.id));
  const chosen = params.value.getAll("run");
  const choose = (id, wanted) =>
    set({ run: wanted ? [...chosen, id].slice(-8) : chosen.filter((one) => one !== id) });
  const filtered = ["status", "name", "label", "cluster", "mine"].some((name) => asked[name]);
  return html`
    <header class="head"><${Title}>Runs<//>
      ${chosen.length > 1 && html`<a class="button"
        href=${`/compare?${chosen.map((id) => `run=${id}`).join("&")}`}
        >Compare ${chosen.length} runs</a>`}</header>
    <form class="filters" role="search" aria-label="Runs" onSubmit=${(e) => e.preventDefault()}>
      <${Filter} name="name" label="Name" value=${asked.name} placeholder="exact, or prefix*" />
      <${Choice} name="status" label="Status" value=${asked.status} options=${statuses} />
      <${Filter} name="label" label="Label" value=${asked.label} placeholder="key=value" />
      <${Filter} name="cluster" label="Cluster" value=${asked.cluster} />
      <label class="check"><input type="checkbox" checked=${asked.mine === "true"}
        onChange=${(event) => set({ mine: event.target.checked ? "true" : "" })} /> Mine</label>
    </form>
    <${Trouble} error=${error} />
    ${!page && !error && html`<${Loading} />`}
    ${page && !runs.length && (filtered
      ? html`<${Empty} title="No run is found">Change the filters, or
          <button type="button" class="link" onClick=${() => go("/runs")}>show all runs</button>.
        <//>`
      : html`<${Empty} title="No run yet"
          ><a href="/submit">Submit one here</a>, or with
          ${" "}<code>trainyard run submit trainyard.yaml</code>.<//>`)}
    ${runs.length > 0 && html`<${Scroll}><table class="list">
      <thead><tr><th><span class="unseen">Compare</span></th><th>Run</th><th>Status</th>
        <th class="number">Step</th><th class="number">Loss</th><th class="number">Nodes</th>
        <th class="number">Attempts</th><th class="number">Cost</th><th>Cluster</th><th>Owner</th>
        <th>Started</th></tr></thead>
      <tbody>${runs.map((run) => html`<${Row} key=${run.id} run=${run} now=${now[run.id]}
        chosen=${chosen.includes(run.id)} choose=${choose} />`)}</tbody></table><//>
      <p class="pager">
        ${asked.nextToken && html`<button type="button" onClick=${() => set({ page: "" })}
          >Newest</button>`}
        ${page.nextToken && html`<button type="button"
          onClick=${() => set({ page: page.nextToken })}>Older</button>`}</p>`}`;
}

function Row({ run, now, chosen, choose }) {
  const cost = run.costUsd ?? now?.cost?.usd;
  return html`<tr>
    <td><input type="checkbox" checked=${chosen} aria-label=${`Compare ${run.name || run.id}`}
      onChange=${(event) => choose(run.id, event.target.checked)} /></td>
    <th scope="row"><a href=${`/runs/${run.id}`}>${run.name || run.id}</a>
      ${Object.entries(run.labels).map(([name, value]) => html` <button type="button" class="label"
        onClick=${() => set({ label: `${name}=${value}` })}>${name}=${value}</button>`)}</th>
    <td class="wide"><${Status} value=${run.status} />
      <div class="reason" title=${run.problem?.detail || run.reason}
        >${run.problem?.title || run.reason}</div></td>
    <td class="number">${number(now?.latest?.step)}</td>
    <td class="number">${number(now?.latest?.loss)}</td>
    <td class="number">${number(now?.nodes)}</td>
    <td class="number">${number(run.attemptCount)}</td>
    <td class="number">${usd(cost)}</td>
    <td>${run.clusterName && html`<a href=${`/clusters/${run.clusterName}`}
      >${run.clusterName}</a>`}</td><td>${who(run.createdBy)}</td>
    <td title=${moment(run.createdAt)}>${ago(run.createdAt)}</td></tr>`;
}
