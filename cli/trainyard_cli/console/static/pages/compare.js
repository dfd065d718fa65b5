// Two to eight runs beside each other: one chart of their losses, and what differs in their specs.
import { useMemo } from "preact/hooks";
import { html } from "../html.js";
import { get, segment } from "../api.js";
import { Chart } from "../chart.js";
import { duration, number, over, usd } from "../format.js";
import { params } from "../route.js";
import { Empty, Loading, Scroll, Status, Title, Trouble, useLive } from "../ui.js";
import { curve } from "./run.js";

const hues = ["--accent", "--second", "--third", "--fourth", "--fifth", "--sixth", "--seventh",
  "--eighth"];

// A spec as lines: path and value.
export function flat(value, path = "", found = {}) {
  if (value !== null && typeof value === "object") {
    for (const [name, one] of Object.entries(value)) {
      flat(one, path ? `${path}.${name}` : name, found);
    }
  } else if (value !== null) {  // what nobody gave
    found[path] = value;
  }
  return found;
}

export function differing(specs) {
  const lines = specs.map((spec) => flat(spec));
  const names = [...new Set(lines.flatMap((one) => Object.keys(one)))].sort();
  return names
    .map((name) => [name, lines.map((one) => one[name])])
    .filter(([, values]) => new Set(values.map((one) => JSON.stringify(one))).size > 1);
}

// One column of steps for all; a run has a hole where it has no sample of that step.
export function joined(many) {
  const of = many.map((samples) =>
    new Map(samples.filter((one) => one.step != null).map((one) => [one.step, one.value])));
  const x = [...new Set(of.flatMap((one) => [...one.keys()]))].sort((a, b) => a - b);
  return { x, losses: of.map((one) => x.map((step) => one.get(step))) };
}

export function Compare() {
  const ids = [...new Set(params.value.getAll("run"))].slice(0, 8);
  const weight = 0.6;
  const [found, error] = useLive(async (stop) => {
    const runs = await Promise.all(ids.map(async (id) => {
      const path = `/v1/runs/${segment(id)}`;
      const [run, metrics, cost] = await Promise.all([
        get(path, {}, { signal: stop }),
        get(`${path}/metrics`, { sinceSeconds: 604800 }, { signal: stop }),
        get(`${path}/cost`, {}, { signal: stop }),
      ]);
      return { run, metrics, cost };
    }));
    return { runs, final: runs.every((one) => over(one.run.status)) };
  }, [ids.join()], 30);
  const runs = found?.runs || [];
  const chart = useMemo(() => joined(runs.map((one) => curve(one.metrics))), [found]);
  const differences = useMemo(() => differing(runs.map((one) => one.run.spec)), [found]);
  const head = html`<header class="head"><${Title}>Compare<//></header>`;
  if (ids.length < 2) {
    return html`${head}<${Empty} title="Choose two to eight runs">Mark them in the
      ${" "}<a href="/runs">list of runs</a>.<//>`;
  }
  if (!found) return html`${head}<${Trouble} error=${error} />${!error && html`<${Loading} />`}`;
  const name = (one) => one.run.name || one.run.id;
  return html`${head}<${Trouble} error=${error} />
    ${chart.x.length > 0 && html`<${Chart} title="Loss" group="compare" x=${chart.x}
      weight=${weight} series=${runs.map((one, index) => ({
        label: `${name(one)}`, hue: hues[index], values: chart.losses[index] }))} />`}
    <${Scroll} label="Runs"><table><thead><tr><th>Run</th><th>Status</th>
      <th class="number">Step</th><th class="number">Loss</th><th class="number">Attempts</th>
      <th class="number">Time</th><th class="number">Cost</th></tr></thead><tbody>
      ${runs.map((one) => html`<tr><th scope="row"><a href=${`/runs/${one.run.id}`}>${name(one)}</a>
        </th><td><${Status} value=${one.run.status} /></td>
        <td class="number">${number(one.run.latest?.step)}</td>
        <td class="number">${number(one.run.latest?.loss)}</td>
        <td class="number">${one.run.attempts.length}</td>
        <td class="number">${duration(lasted(one.run))}</td>
        <td class="number">${usd(one.cost.usd)}</td></tr>`)}</tbody></table><//>
    <h2>What differs in their specs</h2>
    ${differences.length
      ? html`<${Scroll} label="Differences"><table><thead><tr><th>Field</th>
        ${runs.map((one) => html`<th>${name(one)}</th>`)}</tr></thead><tbody>
        ${differences.map(([field, values]) => html`<tr><th scope="row"><code>${field}</code></th>
          ${values.map((value) => html`<td class="wide">${value === undefined
            ? "–" : String(value)}</td>`)}</tr>`)}</tbody></table><//>`
      : html`<p class="quiet">Nothing: they are the same.</p>`}`;
}

const lasted = (run) =>
  ((run.finishedAt ? Date.parse(run.finishedAt) : Date.now()) - Date.parse(run.createdAt)) / 1000;
