// The changes that the page can ask for, and what each would mean.
import { etagOf, get, Problem, segment } from "./api.js";
import { number, over, usd, who } from "./format.js";

const runPath = (run) => `/v1/runs/${segment(run.id)}`;
const titleOf = (run) => (run.name ? `${run.name} (${run.id})` : run.id);

async function newest(run) {
  const page = await get(`${runPath(run)}/checkpoints`, { limit: 100 });
  return page.checkpoints.find((one) => one.status === "whole");
}

const saved = async (run) => {
  const found = await newest(run);
  const step = run.latest?.step;
  if (!found) return "No checkpoint is whole: what was trained is lost.";
  const lost = step > found.step ? ` Step ${number(step)} was the newest seen.` : "";
  return `The newest whole checkpoint is of step ${number(found.step)}.${lost}`;
};

async function itsCluster(run) {
  const name = run.clusterName;
  if (!name) return "It has no cluster yet.";
  try {
    const found = await get(`/v1/clusters/${segment(name)}`);
    return found.ownerRun === run.id
      ? `Cluster ${name} was made for it and is deleted.` : `Cluster ${name} stays.`;
  } catch (error) {
    if (error.status === 404) return `Cluster ${name} is not there.`;
    throw error;
  }
}

export const cancel = (run) => ({
  title: `Cancel ${titleOf(run)}?`,
  verb: "Cancel the run",
  danger: true,
  effects: [
    `The job stops. It is ${run.status}: ${run.reason}`,
    "What is whole is exported.",
  ],
  look: () => Promise.all([itsCluster(run), saved(run)]),
  method: "POST",
  path: `${runPath(run)}:cancel`,
  cli: ["run", "cancel", run.id, "--yes"],
  done: () => `Cancelling ${titleOf(run)}`,
});

export const resume = (run) => ({
  title: `Resume ${titleOf(run)}?`,
  verb: "Resume the run",
  effects: [
    "The run goes on as it was submitted, and may cost as much again as it could before.",
    "If this stack asks for approvals, it waits for people first.",
  ],
  // Of the state that is seen here, so that a run that others resumed is left alone.
  look: async () => {
    await get(runPath(run));
    const found = await newest(run);
    return [found
      ? `It begins with the checkpoint of step ${number(found.step)}.`
      : "No checkpoint is whole: it begins from step 0."];
  },
  etag: () => etagOf(runPath(run)),
  method: "POST",
  path: `${runPath(run)}:resume`,
  cli: ["run", "resume", run.id],
  done: () => `Resuming ${titleOf(run)}`,
});

export const exportNow = (run) => ({
  title: `Export ${titleOf(run)} now?`,
  verb: "Export",
  effects: ["Checkpoints, the final model and the program's own output are copied to S3, and " +
    "each copy is verified. The training goes on."],
  look: async () => [await saved(run)],
  method: "POST",
  path: `${runPath(run)}:export`,
  cli: ["run", "export", run.id],
  done: () => `Exporting ${titleOf(run)}`,
});

export const ofRun = (run) =>
  over(run.status)
    ? run.status === "Succeeded" ? [] : [["Resume", resume]]
    : [["Export", exportNow], ["Cancel", cancel]];

const works = (node) => /^(alloc|mix|comp)/i.test(node.scheduler);

const ofNode = (verb, cluster, node, words) => ({
  title: `${verb} node ${node.name || node.instanceId}?`,
  verb: `${verb} the node`,
  danger: true,
  effects: [
    words,
    `Instance ${node.instanceId} of group ${node.group}, ${node.instanceType}; Slurm: ` +
      `${node.scheduler}, agent: ${node.agent}.`,
    works(node)
      ? "It runs a job now. That run loses what was trained since its newest checkpoint."
      : "Slurm has no job on it.",
  ],
  method: "POST",
  path: `/v1/clusters/${segment(cluster)}/nodes/${node.instanceId}:${verb.toLowerCase()}`,
  cli: ["node", verb.toLowerCase(), cluster, node.instanceId, "--yes"],
  failed: (answer) => {
    const reasons = Object.entries(answer.failed || {}).map(([id, why]) => `${id}: ${why}`);
    return reasons.length
      ? new Problem(0, { title: "The backend refused", detail: reasons.join("\n") }) : null;
  },
  done: () => `${verb === "Reboot" ? "Rebooting" : "Replacing"} ${node.name || node.instanceId}`,
});

export const replace = (cluster, node) => ofNode("Replace", cluster, node,
  "The instance goes for ever, with its own disk, and a new one takes its place.");
export const reboot = (cluster, node) => ofNode("Reboot", cluster, node,
  "The same instance starts again. What its memory holds is lost.");

export const remove = (cluster, nodes, cost) => ({
  title: `Delete cluster ${cluster.name}?`,
  verb: "Delete the cluster",
  danger: true,
  effects: [
    `Its ${number(nodes?.length ?? 0)} nodes go, and it costs no more` +
      (cost?.usd == null ? "." : `; so far it cost ${usd(cost.usd)}.`),
    cluster.ownerRun
      ? `Run ${cluster.ownerRun} made it, and deletes it itself in the end.`
      : `${who(cluster.createdBy)} made it; it stays until somebody deletes it.`,
    "The API refuses while a run is active on it.",
  ],
  force: "Also with people's jobs on it, and with what was not exported",
  method: "DELETE",
  path: `/v1/clusters/${segment(cluster.name)}`,
  cli: ["cluster", "delete", cluster.name, "--yes"],
  done: () => `Deleting ${cluster.name}`,
});

const worth = (one) => (one.usd == null ? "a price that nobody knows" : `up to ${usd(one.usd)}`);

const word = (verb, one, effect) => ({
  title: `${verb} ${one.runName ? `${one.runName} (${one.runId})` : one.subject}?`,
  verb,
  danger: verb === "Deny",
  effects: [
    `${who(one.requester)} asked for it. It may cost ${worth(one)}.`,
    one.because,
    effect,
  ],
  method: "POST",
  path: `/v1/approvals/${segment(one.id)}:${verb.toLowerCase()}`,
  cli: ["approval", verb.toLowerCase(), one.id],
  done: () => `${verb === "Deny" ? "Denied" : "Approved"}: ${one.subject}`,
});

export function approve(one) {
  const count = one.approvers.length + 1;
  return word("Approve", one, count >= one.needed
    ? "With your word the run begins by itself."
    : `Yours is word ${count} of ${one.needed}; the run waits for the others.`);
}
export const deny = (one) => word("Deny", one, "The run ends, and says that you denied it.");
