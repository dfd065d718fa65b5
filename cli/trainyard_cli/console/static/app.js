// The frame: where one is, the theme, whether the API answers; and the page of the address.
import { render } from "preact";
import { computed } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { get, trouble } from "./api.js";
import { Asked, Said } from "./ask.js";
import { place } from "./route.js";
import { context } from "./shell.js";
import { Empty, Title } from "./ui.js";
import { Approvals } from "./pages/approvals.js";
import { Audit } from "./pages/audit.js";
import { Cluster, Clusters } from "./pages/clusters.js";
import { Compare } from "./pages/compare.js";
import { Costs } from "./pages/cost.js";
import { Run } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { Submit } from "./pages/submit.js";

const pages = [
  ["runs", "Runs"], ["clusters", "Clusters"], ["approvals", "Approvals"], ["cost", "Cost"],
  ["audit", "Audit"], ["submit", "Submit"],
];
const views = {
  runs: Runs, clusters: Clusters, approvals: Approvals, cost: Costs, audit: Audit,
  submit: Submit, compare: Compare,
};

const view = computed(() => {
  const [, first = "", second] = place.value.path.split("/").map(decodeURIComponent);
  return { first: first || "runs", second };
});

function Theme() {
  const [theme, choose] = useState(localStorage.getItem("theme") || "");
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("theme", theme);
    document.dispatchEvent(new Event("theme"));
  }, [theme]);
  return html`<label class="theme"><span class="unseen">Colours</span>
    <select value=${theme} onChange=${(event) => choose(event.target.value)}>
      <option value="">System</option><option value="light">Light</option>
      <option value="dark">Dark</option></select></label>`;
}

// Which deployment: the API's own id, or the local cloud.
function named(api) {
  const host = api ? new URL(api).hostname : "";
  return /^(127\.|localhost$)/.test(host) ? "local cloud" : host.split(".")[0];
}

function Connection() {
  const [api, found] = useState("");
  const [me, know] = useState(null);
  const wrong = trouble.value;
  useEffect(() => {
    context().then((one) => found(one.apiUrl)).catch(() => {});
  }, []);
  // Again after a trouble: somebody may have logged in.
  useEffect(() => {
    if (!wrong) get("/v1/whoami").then(know, () => {});
  }, [!wrong]);
  const title = [me && `${me.person.arn}, ${me.role || "without a role"}`, api];
  return html`<span class="connection ${wrong ? "bad" : "good"}" role="status"
      title=${title.filter(Boolean).join("\n")}>
    <i aria-hidden="true"></i>
    ${wrong ? wrong.title : [me?.person.name, named(api)].filter(Boolean).join(" · ")}</span>`;
}

function Page() {
  const { first, second } = view.value;
  if (first === "runs" && second) return html`<${Run} id=${second} key=${second} />`;
  if (first === "clusters" && second) return html`<${Cluster} name=${second} key=${second} />`;
  const Found = second ? null : views[first];
  if (Found) return html`<${Found} />`;
  return html`<${Title}>Not found<//>
    <${Empty} title="There is no such page"><a href="/runs">All runs</a><//>`;
}

function App() {
  const { first, second } = view.value;
  useEffect(() => {
    const name = pages.find(([id]) => id === first)?.[1] || (first === "compare" && "Compare");
    document.title = [second, name, "Trainyard"].filter(Boolean).join(" · ");
  }, [first, second]);
  return html`<header class="top">
      <a class="brand" href="/runs"><img src="/static/icon.svg" alt="" width="22" height="22" />
        Trainyard</a>
      <nav aria-label="Pages">${pages.map(([id, name]) => html`<a href=${`/${id}`}
        aria-current=${id === first ? "page" : undefined}>${name}</a>`)}</nav>
      <${Connection} /><${Theme} /></header>
    <main id="main" tabindex="-1"><${Said} /><${Page} /></main><${Asked} />`;
}

render(html`<${App} />`, document.getElementById("app"));
