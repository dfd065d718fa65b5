// A run's spec as text: what it would do and cost first, and then the run.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { change, get, segment } from "../api.js";
import { ask } from "../ask.js";
import { bytes, number, usd } from "../format.js";
import { go, params } from "../route.js";
import { heredoc } from "../shell.js";
import { Fact, Loading, Scroll, Title, Trouble } from "../ui.js";

const saidBy = async (answer) => {
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return answer.text();
};

// What `trainyard run rerun` submits: the spec with the labels of now, and the run's own commit.
export function again(run) {
  const spec = structuredClone(run.spec);
  if (Object.keys(run.labels || {}).length) spec.labels = run.labels;
  if (spec.job?.git && run.code?.commit) spec.job.git.ref = run.code.commit;
  return spec;
}

const begins = {
  run: async (id) => `${JSON.stringify(again(await get(`/v1/runs/${segment(id)}`)), null, 2)}\n`,
  example: async () => saidBy(await fetch("/static/example.yaml")),
};

export function Submit() {
  const id = params.value.get("run");
  const [text, write] = useState(null);
  const [checked, check] = useState(null);
  const [error, fail] = useState(null);
  const [busy, mark] = useState(false);
  const newest = useRef("");
  useEffect(() => {
    let left = false;
    const first = id ? begins.run(id) : begins.example();
    first.then((found) => left || write(found), (wrong) => left || (write(""), fail(wrong)));
    return () => (left = true);
  }, [id]);
  newest.current = text;
  const fresh = checked?.text === text ? checked : null;

  const look = async (event) => {
    event.preventDefault();
    mark(true);
    fail(null);
    try {
      const { spec } = await change("POST", "/spec.json", { body: text });
      const plan = await change("POST", "/v1/runs?dryrun=true", { body: spec });
      if (newest.current === text) check({ text, spec, plan });
    } catch (wrong) {
      check(null);
      fail(wrong);
    }
    mark(false);
  };
  return html`<header class="head"><${Title}>Submit a run<//></header>
    <p class="quiet">${id
      ? html`The spec of <a href=${`/runs/${id}`}>${id}</a>, as a new run from the beginning. Files
          of a directory are those of that run.`
      : html`Begin with this example, or with <b>Rerun</b> on the page of a run.`}</p>
    ${text == null ? html`<${Loading} />` : html`<form onSubmit=${look}>
      <label class="field spec"><span>Spec, in YAML or JSON</span><textarea rows="22" wrap="off"
        spellcheck=${false} autocapitalize="off" autocomplete="off" value=${text}
        onInput=${(event) => write(event.target.value)}></textarea></label>
      <p class="acts"><button type="submit" class=${fresh ? "" : "main"} disabled=${busy}
          >${busy ? "Checking …" : "Check"}</button>
        <button type="button" class=${fresh ? "main" : ""} disabled=${!fresh || busy}
          onClick=${() => ask(submission(fresh))}>Submit</button>
        <span class="quiet" role="status">${fresh ? "Checked; nothing was done yet."
          : "A check shows the price and what is wrong, and does nothing."}</span></p></form>`}
    ${error && html`<${Wrong} error=${error} />`}
    ${fresh && html`<${Plan} plan=${fresh.plan} />`}`;
}

function Wrong({ error }) {
  if (!error.fields?.length) return html`<${Trouble} error=${error} />`;
  return html`<div class="trouble" role="alert"><strong>${error.title}</strong>
    <pre>${error.detail}</pre>${error.nextStep && html`<p>${error.nextStep}</p>`}</div>
    <${Scroll} label="What is wrong"><table><thead><tr><th>Field</th><th>What is wrong</th></tr>
    </thead><tbody>${error.fields.map((one) => html`<tr><th scope="row"><code>${one.field}</code>
      </th><td class="wide">${one.message}</td></tr>`)}</tbody></table><//>`;
}

const perHour = (plan) => (plan.hourlyUsd == null ? "not known" : `${usd(plan.hourlyUsd)} an hour`);

function Plan({ plan }) {
  const files = Object.values(plan.files);
  return html`<section aria-label="What it would do"><h2>What it would do</h2><dl class="facts">
      <${Fact} name="Price">${perHour(plan)}<//>
      ${plan.listPrice && html`<${Fact} name="On AWS">${plan.listPrice.words}<//>`}
      <${Fact} name="Expected">${usd(plan.expectedUsd)}<//>
      <${Fact} name="At most">${usd(plan.mostUsd)}<//>
      <${Fact} name="Backend">${plan.backend || "the cluster is there"}<//>
      <${Fact} name="Call">${plan.operation || "none"}<//>
      <${Fact} name="Files">${number(files.length)}, ${bytes(files.reduce((a, b) => a + b, 0))}<//>
    </dl>
    ${plan.warnings.length > 0 && html`<h3>Warnings</h3><ul>${plan.warnings.map((one) =>
      html`<li>${one}</li>`)}</ul>`}
    ${plan.cannot.length > 0 && html`<h3>What this backend does not do</h3><ul>
      ${plan.cannot.map((one) => html`<li>${one}</li>`)}</ul>`}
    ${plan.ways.length > 0 && html`<h3>Ways, in this order</h3><${Scroll}><table><thead><tr>
      <th>Way</th><th class="number">Per hour</th><th class="number">At most</th></tr></thead>
      <tbody>
      ${plan.ways.map((one) => html`<tr><th scope="row">${one.way}</th>
        <td class="number">${usd(one.hourlyUsd)}</td><td class="number">${usd(one.mostUsd)}</td>
        </tr>`)}</tbody></table><//>`}
    ${plan.operation && html`<details><summary>Request of ${plan.operation}</summary>
      <pre class="code" tabindex="0">${JSON.stringify(plan.request, null, 2)}</pre></details>`}
    ${plan.environment?.length > 0 && html`<details><summary>Variables of the program
        (${number(plan.environment.length)})</summary><${Scroll} label="Variables"><table>
      <thead><tr><th>Name</th><th>Value</th><th>Set by</th></tr></thead><tbody>
      ${plan.environment.map((one) => html`<tr><th scope="row"><code>${one.name}</code></th>
        <td class="wide">${one.value != null && html`<code>${one.value}</code> `}
          ${one.note && html`<span class="quiet">${one.note}</span>`}</td>
        <td>${one.source}</td></tr>`)}</tbody></table><//></details>`}
    ${plan.batchScript && html`<details><summary>Batch script</summary>
      <pre class="code" tabindex="0">${plan.batchScript}</pre></details>`}</section>`;
}

const submission = ({ text, spec, plan }) => ({
  title: `Submit ${spec.name || "the run"}?`,
  verb: "Submit the run",
  effects: [
    `Price: ${perHour(plan)}; expected ${usd(plan.expectedUsd)}, at most ${usd(plan.mostUsd)}.`,
    plan.operation
      ? `A cluster is made for it (${plan.operation}).`
      : "No cluster is made for it: the job goes to the one that is there.",
    ...plan.warnings,
  ],
  reason: false,
  keyed: true,
  method: "POST",
  path: "/v1/runs",
  body: spec,
  cli: ["run", "submit", "-"],
  input: heredoc(text),
  done: (run) => {
    go(`/runs/${run.id}`);
    return `Submitted ${run.id}`;
  },
});
