// Numbers, times and names as people read them.
const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "–";
  let left = Math.max(0, Math.round(seconds));
  if (left < 1) return seconds > 0 ? `${seconds.toFixed(1)} s` : "0 s";
  const parts = [];
  for (const [name, size] of units) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count || parts.length) parts.push(`${count} ${name}`);
    if (parts.length === 2) break;
  }
  return parts.filter((part) => !part.startsWith("0 ")).join(" ");
}

export function ago(at, now = Date.now()) {
  if (!at) return "–";
  const seconds = (now - Date.parse(at)) / 1000;
  return seconds < 5 ? "now" : `${duration(seconds).split(" ").slice(0, 2).join(" ")} ago`;
}

export function usd(value) {
  if (value == null) return "–";
  const digits = value !== 0 && Math.abs(value) < 1 ? 4 : 2;
  const shown = value.toLocaleString("en-US", {
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  });
  return `$${shown}`;
}

// In binary units, as the command line writes sizes.
export function bytes(value) {
  if (value == null) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let name = 0;
  while (size >= 1024 && name < names.length - 1) {
    size /= 1024;
    name += 1;
  }
  return `${name ? size.toFixed(1) : size} ${names[name]}`;
}

export function number(value, digits = 4) {
  if (value == null || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(digits)));
}

export const time = (at) =>
  at ? new Date(at).toLocaleTimeString("en-GB", { hour12: false }) : "–";

export const moment = (at) =>
  at ? `${new Date(at).toLocaleDateString("en-CA")} ${time(at)}` : "–";

// Of an ARN or a person, what tells them from others.
export function who(person) {
  if (!person) return "–";
  const arn = typeof person === "string" ? person : person.arn || "";
  return arn.split(/[:/]/).pop() || arn || "–";
}

const live = ["Running", "Recovering", "Submitting", "Preparing", "Provisioning"];
const bad = ["Failed", "Deleting failed", "CreateFailed"];

// The colour of a state; its word always stands beside it.
export function tone(status) {
  if (status === "Succeeded" || status === "Ready") return "good";
  if (bad.includes(status)) return "bad";
  if (status === "Cancelled" || status === "Deleted" || status === "Released") return "quiet";
  return live.includes(status) ? "live" : "busy";
}

export const over = (status) => ["Succeeded", "Failed", "Cancelled"].includes(status);
