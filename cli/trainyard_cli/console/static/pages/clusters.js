// All clusters, and one: how far it is, its nodes, what it costs.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { reboot, remove, replace } from "../actions.js";
import { all, get, segment } from "../api.js";
import { ask } from "../ask.js";
import { ago, duration, moment, number, usd, who } from "../format.js";
import { params, set } from "../route.js";
import {
  Choice, Empty, Fact, Filter, Loading, Scroll, Status, Title, Trouble, useLive,
} from "../ui.js";

const statuses = [
  "Pending", "Creating", "InService", "Ready", "Updating", "Stopped", "Failed", "Deleting",
  "Deleted",
];
const sizeOf = (groups) => groups.map((one) => `${one.count} × ${one.instanceType}`).join(", ");

export function Clusters() {
  const given = params.value;
  const asked = {
    limit: 50,
    status: given.get("status"),
    name: given.get("name"),
    label: given.get("label"),
    nextToken: given.get("page"),
  };
  const key = JSON.stringify(asked);
  const [page, error] = useLive((stop) => get("/v1/clusters", asked, { signal: stop }), [key], 5);
  const found = page?.clusters || [];
  return html`<header class="head"><${Title}>Clusters<//></header>
    <form class="filters" role="search" aria-label="Clusters"
      onSubmit=${(event) => event.preventDefault()}>
      <${Filter} name="name" label="Name" value=${asked.name} placeholder="exact, or prefix*" />
      <${Choice} name="status" label="Status" value=${asked.status} options=${statuses} />
      <${Filter} name="label" label="Label" value=${asked.label} placeholder="key=value" /></form>
    <${Trouble} error=${error} />${!page && !error && html`<${Loading} />`}
    ${page && !found.length && html`<${Empty} title="No cluster is found">A run makes its own, or
      ${" "}<code>trainyard cluster create</code> makes one that stays.<//>`}
    ${found.length > 0 && html`<${Scroll}><table><thead><tr><th>Cluster</th><th>Status</th>
      <th>Backend</th><th>Nodes</th><th>Made for</th><th>Owner</th><th>Last used</th>
      <th>Created</th></tr></thead><tbody>${found.map((one) => html`<tr key=${one.name}>
        <th scope="row"><a href=${`/clusters/${one.name}`}>${one.name}</a></th>
        <td class="wide"><${Status} value=${one.status} />
          <div class="reason">${one.problem?.title || one.changing}</div></td>
        <td>${one.backend}</td><td class="wide">${sizeOf(one.groups)}</td>
        <td>${one.ownerRun
          ? html`<a href=${`/runs/${one.ownerRun}`}>${one.ownerRun}</a>` : "–"}</td>
        <td>${who(one.createdBy)}</td><td>${ago(one.lastUsedAt)}</td>
        <td title=${moment(one.createdAt)}>${ago(one.createdAt)}</td></tr>`)}</tbody></table><//>
      <p class="pager">${page.nextToken && html`<button type="button"
        onClick=${() => set({ page: page.nextToken })}>Older</button>`}</p>`}`;
}

const steps = [
  ["Asked for", (one) => one.createdAt],
  ["AWS has it", (one) => one.arn && one.createdAt],
  ["Nodes are in service", (one) => (reached(one, "InService") ? one.createdAt : null)],
  ["Ready for runs", (one) => one.readyAt],
];
const order = ["Pending", "Creating", "InService", "Ready", "Updating", "Stopped"];
const leaving = ["Deleting", "Deleted"];
const reached = (one, status) => order.indexOf(one.status) >= order.indexOf(status);

export function Cluster({ name }) {
  const path = `/v1/clusters/${segment(name)}`;
  const [found, error] = useLive((stop) => get(path, {}, { signal: stop }), [name], 3);
  const [nodes, nodesError] = useLive(
    () => all(`${path}/nodes`, "nodes", {}, 4000), [name], 5);
  const [cost] = useLive((stop) => get(`${path}/cost`, {}, { signal: stop }), [name], 60);
  if (!found) {
    return html`<${Title}>${name}<//><${Trouble} error=${error} />
      ${!error && html`<${Loading} />`}`;
  }
  const failed = found.status === "Failed";
  return html`<header class="head"><div><${Title}>${found.name}<//>
      <p class="quiet">${found.spec.backend || "hyperpod"} · ${who(found.createdBy)} · created
        ${" "}${ago(found.createdAt)}</p></div>
      <span class="acts">${!leaving.includes(found.status) && html`<button type="button"
        onClick=${() => ask(remove(found, nodes, cost))}>Delete</button>`}</span>
      <${Status} value=${found.status} /></header>
    <${Trouble} error=${error} />
    ${found.problem && html`<div class="trouble"><strong>${found.problem.title}</strong>
      <pre>${found.problem.detail}</pre><p>${found.problem.nextStep}</p></div>`}
    <dl class="facts"><${Fact} name="Nodes">${number(nodes?.length)}<//>
      <${Fact} name="Ready after">${found.readyAt
        ? duration((Date.parse(found.readyAt) - Date.parse(found.createdAt)) / 1000) : "–"}<//>
      <${Fact} name="Last heard">${ago(found.lastHeartbeatAt)}<//>
      <${Fact} name="Last used">${ago(found.lastUsedAt)}<//>
      <${Fact} name="Cost so far" hint=${cost?.reason}>${usd(cost?.usd)}<//>
      <${Fact} name="Not used by a run" hint=${cost?.reason}>${usd(cost?.idleUsd)}<//></dl>
    ${!found.readyAt && html`<h2>How far it is</h2><ol class="steps">${steps.map(([words, when]) =>
      html`<li class=${when(found) ? "done" : failed ? "failed" : ""}>${words}</li>`)}</ol>`}
    <h2>Nodes</h2><${Trouble} error=${nodesError} />
    ${!nodes && !nodesError && html`<${Loading} />`}
    ${nodes && !nodes.length && html`<${Empty} title="No node yet" />`}
    ${nodes?.length > 0 && html`<${Nodes} nodes=${nodes} cluster=${found.name} />`}
    ${cost?.runs.length > 0 && html`<h2>Runs that used it</h2><${Scroll}><table><thead><tr>
      <th>Run</th><th class="number">Cost</th></tr></thead><tbody>${cost.runs.map((one) => html`<tr>
        <td><a href=${`/runs/${one.runId}`}>${one.runId}</a></td>
        <td class="number">${usd(one.usd)}</td></tr>`)}</tbody></table><//>`}`;
}

// Of a node: lost, not ready, idle, at work.
function mood(node) {
  if (node.agent === "silent" || /down|fail/.test(node.scheduler)) return "bad";
  if (node.status !== "Running") return "busy";
  return /alloc|mix/.test(node.scheduler) ? "live" : "good";
}
const moods = [["live", "at work"], ["good", "idle"], ["busy", "not ready"], ["bad", "lost"]];
const cell = 16;
const mostListed = 200;

// A canvas: two thousand nodes are one element. The table below says the same in words.
function Grid({ nodes, chosen, choose }) {
  const canvas = useRef();
  const place = useRef({ columns: 1 });
  useEffect(() => {
    const draw = () => {
      const element = canvas.current;
      const width = element?.parentElement.clientWidth;
      if (!width) return;
      const columns = Math.max(1, Math.floor(width / cell));
      place.current = { columns };
      const height = Math.ceil(nodes.length / columns) * cell;
      element.width = width * devicePixelRatio;
      element.height = height * devicePixelRatio;
      element.style.width = `${width}px`;
      element.style.height = `${height}px`;
      const context = element.getContext("2d");
      context.scale(devicePixelRatio, devicePixelRatio);
      const probe = document.getElementById("probe");
      const colors = Object.fromEntries(["live", "good", "busy", "bad"].map((name) => {
        probe.style.color = `var(--${name === "live" ? "accent" : name})`;
        return [name, getComputedStyle(probe).color];
      }));
      nodes.forEach((node, index) => {
        const [x, y] = [(index % columns) * cell, Math.floor(index / columns) * cell];
        context.globalAlpha = !chosen || node.instanceId === chosen ? 1 : 0.45;
        context.fillStyle = colors[mood(node)];
        context.beginPath();
        context.roundRect(x + 1, y + 1, cell - 3, cell - 3, 3);
        context.fill();
      });
    };
    draw();
    const sized = new ResizeObserver(draw);
    sized.observe(canvas.current.parentElement);
    document.addEventListener("theme", draw);
    return () => {
      sized.disconnect();
      document.removeEventListener("theme", draw);
    };
  }, [nodes, chosen]);
  const under = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / cell);
    const row = Math.floor((event.clientY - box.top) / cell);
    return nodes[row * place.current.columns + column];
  };
  const counts = moods.map(([name, words]) =>
    [name, words, nodes.filter((node) => mood(node) === name).length]);
  const said = counts.map(([, words, count]) => `${count} ${words}`).join(", ");
  return html`<div class="panel"><p class="values">${counts.map(([name, words, count]) => html`<span
      class="status ${name}"><i aria-hidden="true"></i>${count} ${words}</span>`)}</p>
    <div><canvas ref=${canvas} role="img" aria-label=${`${nodes.length} nodes: ${said}`}
      onMouseMove=${(event) => {
        const node = under(event);
        event.target.title = node
          ? `${node.name || node.instanceId}: ${node.status}, ${node.scheduler}` : "";
      }} onClick=${(event) => choose(under(event)?.instanceId || "")}></canvas></div></div>`;
}

const percent = (value) => (value == null ? "–" : `${Math.round(value)} %`);
const memory = (one) =>
  one?.memoryTotalBytes ? (100 * one.memoryUsedBytes) / one.memoryTotalBytes : null;
const gpu = (one) =>
  one?.gpus?.length
    ? one.gpus.reduce((sum, each) => sum + (each.utilizationPercent || 0), 0) / one.gpus.length
    : null;

function Nodes({ nodes, cluster }) {
  const text = (params.value.get("node") || "").toLowerCase();
  const [chosen, choose] = useState("");
  const found = nodes.filter((node) => (!chosen || node.instanceId === chosen) && (!text ||
    [node.name, node.instanceId, node.status, node.scheduler, node.group].join(" ")
      .toLowerCase().includes(text)));
  return html`<${Grid} nodes=${nodes} chosen=${chosen} choose=${choose} />
    <form class="filters tight" onSubmit=${(event) => event.preventDefault()}>
      <${Filter} name="node" label="Find a node" value=${text} placeholder="name, state, group" />
      ${chosen && html`<button type="button" onClick=${() => choose("")}>All nodes</button>`}
      <span class="quiet">${Math.min(found.length, mostListed)} of ${nodes.length}</span></form>
    <${Scroll} label="Nodes"><table><thead><tr><th>Node</th><th>Group</th><th>State</th>
      <th>Slurm</th><th>Agent</th><th class="number">Heard</th><th class="number">CPU</th>
      <th class="number">Memory</th><th class="number">GPU</th><th>Instance</th><th>Change</th>
      </tr></thead>
      <tbody>${found.slice(0, mostListed).map((node) => html`<tr key=${node.instanceId}>
        <td>${node.name || "–"}</td><td>${node.group}</td>
        <td><span class="status ${mood(node)}"><i aria-hidden="true"></i>${node.status}</span>
          <div class="reason">${node.message}</div></td>
        <td>${node.scheduler}</td><td>${node.agent}</td>
        <td class="number">${ago(node.sample?.at)}</td>
        <td class="number">${percent(node.sample?.cpuPercent)}</td>
        <td class="number">${percent(memory(node.sample))}</td>
        <td class="number">${percent(gpu(node.sample))}</td>
        <td><code>${node.instanceId}</code><div class="reason">${node.instanceType}</div></td>
        <td><span class="acts">${[["Replace", replace], ["Reboot", reboot]].map(([words, about]) =>
          html`<button type="button" class="small" onClick=${() => ask(about(cluster, node))}
            aria-label=${`${words} ${node.name || node.instanceId}`}>${words}</button>`)}</span>
        </td></tr>`)}</tbody></table><//>`;
}
