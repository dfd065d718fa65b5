// One run: what happened and why, how it trained, what it printed, what it cost and what is left.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "../html.js";
import { ofRun } from "../actions.js";
import { changes, get, poll, segment } from "../api.js";
import { ask } from "../ask.js";
import { Chart } from "../chart.js";
import { ago, bytes, duration, moment, number, over, time, usd, who } from "../format.js";
import { params, set } from "../route.js";
import {
  Empty, Fact, Loading, Scroll, Status, Tabs, Title, Trouble, safe, useLive,
} from "../ui.js";

const tabs = [
  ["overview", "Overview"], ["timeline", "Timeline"], ["logs", "Logs"],
  ["checkpoints", "Checkpoints"], ["cost", "Cost"], ["outputs", "Outputs"], ["spec", "Spec"],
];
const pageOf = 100;
// What is not in the run's own answer is asked for so often, although the run did not change.
const eventsSeconds = 6;
const seriesSeconds = 45;
// AWS takes signatures of a clock that is wrong by five minutes.
const skewSeconds = 360;

// The timeline goes on where it ended: its last page is read again, never those before it. A long
// one is shown while it is read.
function timeline(path, show) {
  let token = null;
  let before = [];
  return async (stop) => {
    for (;;) {
      const page = await get(path, { limit: pageOf, nextToken: token }, { signal: stop });
      const found = [...before, ...page.events];
      if (!page.nextToken) return found;
      before = found;
      token = page.nextToken;
      show(found);
    }
  };
}

// The trouble of one part, such as an hour's cost that nobody can add up: the rest is shown.
const own = (error) => error.status >= 500;

const due = (last, seconds) => Date.now() - last >= seconds * 1000;

// All that the page shows of a run. One call in two seconds: if the run's ETag says that nothing
// changed, nothing else is asked before its own time has come.
function useRun(id, name) {
  const [found, change] = useState({});
  const made = changes.value;
  useEffect(() => {
    const path = `/v1/runs/${segment(id)}`;
    const show = (more) => change((before) => ({ ...before, ...more }));
    const read = timeline(`${path}/events`, (events) => show({ events }));
    let seen;
    let eventsAt = 0;
    let seriesAt = 0;
    let since;
    const look = async (stop) => {
      const run = await get(path, {}, { signal: stop });
      if (!seen) show({ run });
      const changed = !seen || seen.status !== run.status || seen.updatedAt !== run.updatedAt;
      const more = { error: null };
      const part = async (name, reading) => {
        try {
          more[name] = await reading;
        } catch (error) {
          if (stop.aborted || !own(error)) throw error;
          more.error = error;
        }
      };
      if (changed || over(run.status) || due(eventsAt, eventsSeconds)) {
        await part("events", read(stop));
        eventsAt = Date.now();
      }
      // What is read after the end is what stays on the page.
      const last = over(run.status);
      if (!seen || last || (changed && due(seriesAt, 5)) || due(seriesAt, seriesSeconds)) {
        const end = run.finishedAt ? Date.parse(run.finishedAt) : Date.now();
        const lived = Math.max(0, Math.ceil((end - Date.parse(run.createdAt)) / 1000));
        since = Math.min(604800, lived + skewSeconds);
        await Promise.all([
          part("metrics", get(`${path}/metrics`, { sinceSeconds: since, name }, { signal: stop })),
          part("cost", get(`${path}/cost`, {}, { signal: stop })),
        ]);
        if (more.metrics) more.fresh = [];
        seriesAt = Date.now();
      }
      if (stop.aborted) return false;
      const sample = run !== seen && run.latest;
      seen = run;
      change((before) => {
        const next = { ...before, ...more, run };
        if (sample && !more.metrics) next.fresh = grown(before, sample);
        if (more.events?.length === before.events?.length) next.events = before.events;
        return next;
      });
      return last && !more.error ? false : undefined;
    };
    return poll(async (stop) => {
      try {
        return await look(stop);
      } catch (error) {
        if (!stop.aborted) show({ error });
        throw error;
      }
    });
  }, [id, made, name]);
  return found;
}

// Samples that came since the series was read, at the times at which they were heard.
function grown({ fresh = [], metrics }, sample) {
  const last = fresh.at(-1) || metrics?.run.at(-1);
  const same = last?.step === sample.step && last?.attempt === sample.attempt;
  if (sample.step == null || same) return fresh;
  return [...fresh, { ...sample, at: new Date().toISOString() }];
}

export function Run({ id }) {
  const { run, events, metrics, fresh, cost, error } = useRun(id, params.value.get("name"));
  const tab = params.value.get("tab") || "overview";
  if (!run) {
    return html`<${Title}>Run<//><${Trouble} error=${error} />
      ${!error && html`<${Loading} />`}`;
  }
  const parts = {
    overview: () => html`<${Overview} ...${{ run, events, metrics, fresh, cost }} />`,
    timeline: () => html`<${Timeline} events=${events} />`,
    logs: () => html`<${Logs} run=${run} />`,
    checkpoints: () => html`<${Checkpoints} run=${run} />`,
    cost: () => html`<${Cost} cost=${cost} />`,
    outputs: () => html`<${Outputs} run=${run} />`,
    spec: () => html`<pre class="code" tabindex="0">${JSON.stringify(run.spec, null, 2)}</pre>`,
  };
  return html`<header class="head"><div>
      <${Title}>${run.name || run.id}<//>
      <p class="quiet">${run.name && html`<code>${run.id}</code> · `}${who(run.createdBy)} ·
        submitted ${ago(run.createdAt)}</p></div>
      <span class="acts">${ofRun(run).map(([words, about]) => html`<button type="button"
        onClick=${() => ask(about(run))}>${words}</button>`)}
        <a class="button" href=${`/submit?run=${run.id}`}>Rerun</a></span>
      <${Status} value=${run.status} /></header>
    <${Trouble} error=${error} />
    ${run.problem
      ? html`<div class="trouble"><strong>${run.problem.title}</strong>
          <pre>${run.problem.detail}</pre><p>${run.problem.nextStep}</p></div>`
      : run.reason && html`<p class="lead">${run.reason}
          ${waitsForPeople(run) && html`${" "}<a href="/approvals?state=pending"
            >What waits for people</a>`}</p>`}
    <dl class="facts">
      <${Fact} name="Step">${number(run.latest?.step)}<//>
      <${Fact} name="Loss">${number(run.latest?.loss)}<//>
      <${Fact} name="Steps per second">${number(speedNow(metrics, fresh), 3)}<//>
      <${Fact} name="Attempt">${run.attempts.at(-1)?.number ?? "–"}<//>
      <${Fact} name="Nodes" hint=${run.attempts.at(-1)?.nodes.join(", ")}
        >${run.attempts.at(-1)?.nodes.length ?? "–"}<//>
      <${Fact} name=${cost?.final ? "Cost" : "Cost so far"} hint=${cost?.reason}
        >${usd(cost?.usd)}<//>
      <${Fact} name="Time">${duration(lasted(run))}<//>
      <${Fact} name="Cluster">${run.clusterName && html`<a
        href=${`/clusters/${run.clusterName}`}>${run.clusterName}</a>`}<//>
    </dl>
    <${Tabs} name="tab" value=${tab} tabs=${tabs} />
    <section class="part">${(parts[tab] || parts.overview)()}</section>`;
}

const waitsForPeople = (run) => run.status === "Waiting" && / approval /.test(run.reason);

const lasted = (run) =>
  ((run.finishedAt ? Date.parse(run.finishedAt) : Date.now()) - Date.parse(run.createdAt)) / 1000;

// What the run reported under the name that is shown, of all its time; of the loss also what was
// heard since. Of older versions there are the samples of a week only.
export function curve(metrics) {
  if (metrics?.points?.length || (metrics?.name ?? "loss") !== "loss") return metrics.points || [];
  return (metrics?.run || []).filter((one) => one.step != null)
    .map((one) => ({ ...one, value: one.loss }));
}

function samples(metrics, fresh) {
  const known = curve(metrics);
  if ((metrics?.name ?? "loss") !== "loss") return known;
  const newest = known.at(-1);
  const since = (fresh || []).filter((one) => one.step != null && !(newest &&
    one.attempt === newest.attempt && one.step <= newest.step));
  return [...known, ...since.map((one) => ({ ...one, value: one.loss }))];
}

function speedNow(metrics, fresh) {
  const live = [...(metrics?.run || []), ...(fresh || [])].filter((one) => one.step != null);
  return speeds(live).filter((one) => one != null).at(-1);
}

// Steps per second between a sample and the one before it, of the same attempt.
export function speeds(found) {
  return found.map((one, index) => {
    const last = found[index - 1];
    if (!last || last.attempt !== one.attempt || one.step <= last.step) return null;
    return (one.step - last.step) / ((Date.parse(one.at) - Date.parse(last.at)) / 1000);
  });
}

// Columns with a hole between two attempts, so that no line joins them.
export function columns(found, byTime) {
  const x = [];
  const value = [];
  const speed = [];
  const fast = speeds(found);
  found.forEach((one, index) => {
    const at = byTime ? Date.parse(one.at) / 1000 : one.step;
    const last = found[index - 1];
    if (last && last.attempt !== one.attempt) {
      x.push(byTime ? at - 0.001 : at);
      value.push(null);
      speed.push(null);
    }
    x.push(at);
    value.push(one.value);
    speed.push(fast[index]);
  });
  return { x, value, speed };
}

function Overview({ run, events, metrics, fresh, cost }) {
  const given = params.value;
  const byTime = given.get("x") !== "step";
  const log = given.get("log") === "1";
  const weight = Number(given.get("smooth") ?? 0.6);
  const name = metrics?.name ?? "loss";
  const found = useMemo(() => {
    const known = samples(metrics, fresh);
    if (byTime) {
      return columns([...known].sort((a, b) => Date.parse(a.at) - Date.parse(b.at)), true);
    }
    return columns([...known].sort((a, b) => a.step - b.step || a.attempt - b.attempt), false);
  }, [metrics, fresh, byTime]);
  const bands = byTime
    ? run.incidents.map((one) => [
        Date.parse(one.startedAt) / 1000,
        (one.resumedAt ? Date.parse(one.resumedAt) : Date.now()) / 1000,
      ])
    : [];
  return html`<div class="split"><div>
    <form class="filters tight" onSubmit=${(event) => event.preventDefault()}>
      ${(metrics?.names?.length > 1 || given.get("name")) && html`<${Names} metrics=${metrics} />`}
      <label class="field"><span>Axis</span><select value=${byTime ? "time" : "step"}
        onChange=${(event) => set({ x: event.target.value === "step" ? "step" : "" })}>
        <option value="time">Time</option><option value="step">Step</option></select></label>
      <label class="field"><span>Smoothing ${weight || "off"}</span>
        <input type="range" min="0" max="0.95" step="0.05" value=${weight}
          onInput=${(event) => set({ smooth: event.target.value })} /></label>
      <label class="check"><input type="checkbox" checked=${log}
        onChange=${(event) => set({ log: event.target.checked ? "1" : "" })} /> Log scale</label>
    </form>
    ${!metrics && html`<${Loading} />`}
    ${metrics && !found.x.length && (name === "loss"
      ? html`<${Empty} title="No step yet"
          >The curve begins with the first step that the program reports.<//>`
      : html`<${Empty} title="Nothing under this name"
          >The program reported no ${name} yet.<//>`)}
    ${found.x.length > 0 && html`
      <${Chart} title=${name === "loss" ? "Loss" : name} group=${run.id} x=${found.x}
        byTime=${byTime} log=${log} weight=${weight} bands=${bands}
        series=${[{ label: "", hue: "--accent", values: found.value }]} />
      <${Chart} title="Throughput" unit="steps/s" group=${run.id} x=${found.x} byTime=${byTime}
        weight=${weight} bands=${bands}
        series=${[{ label: "", hue: "--second", values: found.speed }]} />
      ${metrics.thinned && html`<p class="quiet note">Points are left out, so that the page stays
        fast; every point that is shown was measured.</p>`}`}
    <${Incidents} run=${run} /></div>
    <aside aria-label="Newest entries of the timeline">
      <h2>Latest</h2>
      <${Entries} entries=${(events || []).slice(-14).reverse()} />
      <p><a href="?tab=timeline">The whole timeline</a></p>
      ${cost && html`<h2>Where the time went</h2><${Ledger} cost=${cost} />`}
    </aside></div>`;
}

// The numbers that the program reports; what is asked for may not be there yet.
function Names({ metrics }) {
  const asked = params.value.get("name") || "loss";
  const names = [...new Set(["loss", ...(metrics?.names || []).map((one) => one.name), asked])];
  return html`<label class="field"><span>Shows</span><select value=${asked}
    onChange=${(event) => set({ name: event.target.value === "loss" ? "" : event.target.value })}>
    ${names.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;
}

function Incidents({ run }) {
  if (!run.incidents.length) return null;
  return html`<h2>Incidents</h2><${Scroll}><table><thead><tr><th>When</th><th>Cause</th>
    <th>Why, and what was done</th><th class="number">Attempt</th><th class="number">Back after</th>
    </tr></thead><tbody>
    ${[...run.incidents].reverse().map((one) => html`<tr><td>${moment(one.startedAt)}</td>
      <td>${one.cause}${one.node && html`<br /><code>${one.node}</code>`}</td>
      <td class="wide">${one.reason}</td><td class="number">${one.attempt}</td>
      <td class="number">${one.resumedAt
        ? duration((Date.parse(one.resumedAt) - Date.parse(one.startedAt)) / 1000) +
          (one.resumedBy === "start" ? " (started; no step told)" : "")
        : "not yet"}</td></tr>`)}</tbody></table><//>`;
}

const Entries = ({ entries }) => html`<ol class="timeline">
  ${entries.map((one) => html`<li class=${`is-${one.kind}`} key=${one.id}>
    <time datetime=${one.at} title=${moment(one.at)}>${time(one.at)}</time>
    <div><span class="kind">${one.type}</span>
      ${one.attempt != null && html`<span class="quiet"> attempt ${one.attempt}</span>`}
      <p>${one.message}</p></div></li>`)}</ol>`;

const kinds = ["decision", "status", "fact"];
function Timeline({ events }) {
  const [shown, more] = useState(200);
  const kind = params.value.get("kind");
  const text = (params.value.get("find") || "").toLowerCase();
  if (!events) return html`<${Loading} />`;
  const found = events.filter((one) => (!kind || one.kind === kind) &&
    (!text || `${one.type} ${one.message}`.toLowerCase().includes(text)));
  return html`<form class="filters tight" onSubmit=${(event) => event.preventDefault()}>
      <label class="field"><span>Kind</span><select value=${kind || ""}
        onChange=${(event) => set({ kind: event.target.value })}><option value="">All</option>
        ${kinds.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
      <label class="field"><span>Find</span><input type="search" value=${text}
        onInput=${(event) => set({ find: event.target.value })} /></label>
      <span class="quiet">${found.length} of ${events.length}, newest first</span></form>
    ${found.length
      ? html`<${Entries} entries=${found.slice(-shown).reverse()} />`
      : html`<${Empty} title="Nothing is found" />`}
    ${found.length > shown && html`<button type="button" onClick=${() => more(shown + 500)}
      >Older entries</button>`}`;
}

const places = { node: "the node", s3: "the copy in S3", cloudwatch: "CloudWatch Logs" };

function Logs({ run }) {
  const given = params.value;
  const attempts = run.attempts.map((one) => one.number);
  const attempt = given.get("attempt") || "";
  const shown = run.attempts.find((one) => String(one.number) === attempt) || run.attempts.at(-1);
  const node = given.get("node") || "";
  const kind = given.get("of") || "job";
  const [follow, following] = useState(!over(run.status));
  const asked = {
    attempt: kind === "job" ? attempt : "",
    node: kind === "job" ? node : "",
    kind,
    lines: given.get("lines") || "300",
    contains: given.get("contains"),
  };
  const [log, error] = useLive(async (stop) => {
    const found = await get(`/v1/runs/${segment(run.id)}/logs`, asked, { signal: stop });
    return follow ? found : { ...found, final: true };
  }, [run.id, JSON.stringify(asked), follow], 3);
  const pick = (name) => (event) => set({ [name]: event.target.value });
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([log.text], { type: "text/plain" }));
    link.download = `${run.id}-${kind}-${shown?.number ?? 0}.log`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  return html`<form class="filters tight" onSubmit=${(event) => event.preventDefault()}>
      <label class="field"><span>Of</span><select value=${kind} onChange=${pick("of")}>
        <option value="job">the job</option><option value="lifecycle">the node's setup</option>
        </select></label>
      ${kind === "job" && html`<label class="field"><span>Attempt</span>
        <select value=${attempt} onChange=${pick("attempt")}><option value="">newest</option>
        ${attempts.map((one) => html`<option>${one}</option>`)}</select></label>
      <label class="field"><span>Node</span><select value=${node} onChange=${pick("node")}>
        <option value="">all</option>
        ${(shown?.nodes || []).map((one) => html`<option>${one}</option>`)}</select></label>`}
      <label class="field"><span>Lines with</span><input type="search"
        value=${given.get("contains") || ""} onChange=${pick("contains")} /></label>
      <label class="field"><span>Lines</span><select value=${asked.lines} onChange=${pick("lines")}>
        ${["100", "300", "1000"].map((one) => html`<option>${one}</option>`)}</select></label>
      <label class="check"><input type="checkbox" checked=${follow}
        onChange=${(event) => following(event.target.checked)} /> Follow</label>
      <button type="button" disabled=${!log?.text} onClick=${download}>Download</button></form>
    <${Trouble} error=${error} />
    ${!log && !error && html`<${Loading} />`}
    ${log && !log.text && html`<${Empty} title="Nothing was printed">Or no line has this text.<//>`}
    ${log?.text && html`<p class="quiet note">The newest lines, from
        ${" "}${places[log.source] || log.source}</p>
      <${Tail} text=${log.text} follow=${follow} />`}`;
}

// Stays at its end while the reader is there.
function Tail({ text, follow }) {
  const [box, hold] = useState(null);
  const [atEnd, end] = useState(true);
  useEffect(() => {
    if (box && follow && atEnd) box.scrollTop = box.scrollHeight;
  }, [text, box, follow, atEnd]);
  return html`<pre class="code log" tabindex="0" role="log" aria-label="Log" aria-live="off"
    ref=${hold} onScroll=${() => end(box.scrollHeight - box.scrollTop - box.clientHeight < 40)}
    >${text}</pre>`;
}

function Checkpoints({ run }) {
  const [page, error] = useLive(async (stop) => {
    const found = await get(`/v1/runs/${segment(run.id)}/checkpoints`, { limit: 100 },
      { signal: stop });
    return over(run.status) ? { ...found, final: true } : found;
  }, [run.id, run.status], 8);
  const list = page?.checkpoints || [];
  const next = list.find((one) => one.status === "whole");
  if (!page) return html`<${Trouble} error=${error} />${!error && html`<${Loading} />`}`;
  if (!list.length) {
    return html`<${Empty} title="No checkpoint yet">A run without one begins from step 0.<//>`;
  }
  return html`<${Scroll}><table><thead><tr><th class="number">Step</th><th>State</th>
    <th class="number">Attempt</th><th class="number">Size</th><th class="number">Files</th>
    <th>Committed</th><th>Path</th></tr></thead><tbody>
    ${list.map((one) => html`<tr key=${one.path}><td class="number">${one.counted
        ? `copy ${one.step}` : number(one.step)}</td>
      <td><${Status} value=${one.status} />${one === next && html` <b class="tag"
        >resumes here</b>`}<div class="reason">${one.reason}</div></td>
      <td class="number">${one.attempt}</td><td class="number">${bytes(one.bytes)}</td>
      <td class="number">${one.files}</td><td>${moment(one.committedAt)}</td>
      <td><code>${one.path}</code></td></tr>`)}</tbody></table><//>
    ${page.nextToken && html`<p class="quiet note">The newest 100 are shown.</p>`}`;
}

const words = {
  useful: "Training", creation: "Cluster is made", "creation-failed": "Cluster that failed",
  start: "Start", waiting: "Waiting", detection: "Detection", restart: "Restart",
  recomputation: "Steps done again", stall: "Stall", saving: "Saving", teardown: "Teardown",
};

function Ledger({ cost }) {
  const most = Math.max(...cost.ledger.map((line) => line.seconds), 1);
  if (!cost.ledger.length) return html`<p class="quiet">Nothing yet.</p>`;
  return html`<table class="bars"><tbody>${cost.ledger.map((line) => html`<tr>
    <th scope="row">${words[line.cause] || line.cause}</th>
    <td class="bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"
      ><rect class=${line.cause === "useful" ? "useful" : "waste"} height="8"
        width=${(100 * line.seconds) / most} /></svg></td>
    <td class="number">${duration(line.seconds)}</td>
    <td class="number">${usd(line.usd)}</td></tr>`)}
    </tbody></table>`;
}

const sources = { list: "AWS's price list", given: "the cluster's spec" };

function Cost({ cost }) {
  if (!cost) return html`<${Loading} />`;
  const total = cost.ledger.reduce((sum, line) => sum + line.nodeSeconds, 0);
  const useful = cost.ledger.find((line) => line.cause === "useful")?.nodeSeconds || 0;
  return html`<dl class="facts"><${Fact} name=${cost.final ? "Cost" : "So far"}>${usd(cost.usd)}<//>
      <${Fact} name="Node hours">${number(cost.nodeSeconds / 3600, 3)}<//>
      <${Fact} name="Time that trained"
        >${total ? `${Math.round((100 * useful) / total)} %` : "–"}<//>
      ${cost.budget && html`<${Fact} name="Budget"
          >${usd(cost.budget.spentUsd)} of ${usd(cost.budget.maxUsd)}<//>
        <${Fact} name="Held back for the end">${usd(cost.budget.heldBackUsd)}<//>
        <${Fact} name="Stops at">${cost.budget.stopsAt
          ? moment(cost.budget.stopsAt) : "nothing is spent now"}<//>`}</dl>
    ${cost.reason && html`<p class="lead">${cost.reason}</p>`}
    <h2>By cause</h2><${Ledger} cost=${cost} />
    <h2>Prices</h2>
    ${cost.prices.length
      ? html`<${Scroll}><table><thead><tr><th>From</th><th>To</th>
        <th class="number">Nodes</th><th class="number">Per hour</th>
        <th class="number">The run's part</th><th>Known from</th></tr>
        </thead>
        <tbody>${cost.prices.map((one) => html`<tr><td>${moment(one.since)}</td>
          <td>${one.ended ? moment(one.until) : "goes on"}</td><td class="number">${one.nodes}</td>
          <td class="number">${usd(one.hourlyUsd)}</td>
          <td class="number">${Math.round(100 * one.share)} %</td>
          <td>${sources[one.source] || "nobody"}</td></tr>`)}
        </tbody></table><//>`
      : html`<p class="quiet">No node was there yet.</p>`}`;
}

function Outputs({ run }) {
  const [found, change] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    get(`/v1/runs/${segment(run.id)}/outputs`, { limit: 200, urls: true }).then(change, fail);
  }, [run.id, run.status, run.sync?.at]);
  if (error?.status === 409) {
    return html`<${Empty} title="Nothing was exported yet">${error.message}<//>`;
  }
  if (!found) return html`<${Trouble} error=${error} />${!error && html`<${Loading} />`}`;
  const kind = found.source === "sync" ? "Copied while it trains" : "Verified export";
  return html`<p class="note">${kind} in <code>${found.uri}</code></p>
    ${found.outputs.length
      ? html`<${Scroll}><table><thead><tr><th>Object</th><th class="number">Size</th>
        <th>SHA-256</th></tr></thead><tbody>${found.outputs.map((one) => html`<tr><td>
          ${one.url && safe(one.url)
            ? html`<a href=${safe(one.url)} target="_blank" rel="noreferrer">${one.key}</a>`
            : one.key}</td><td class="number">${bytes(one.bytes)}</td>
          <td><code title=${one.sha256}>${one.sha256.slice(0, 12)}</code></td></tr>`)}
        </tbody></table><//>`
      : html`<${Empty} title="No object" />`}
    ${found.nextToken && html`<p class="quiet note">The first 200 are shown. All of them:
      <code>trainyard run outputs ${run.id}</code></p>`}`;
}
