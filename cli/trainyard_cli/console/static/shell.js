// The same in a terminal: what a person would type there.
import { call, query } from "./api.js";

export const quoted = (text) =>
  /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`;

// Text for standard input; its end is a line that is not in it.
export function heredoc(text) {
  let end = "END";
  while (text.split("\n").includes(end)) end += "_";
  return ` <<'${end}'\n${text}${text.endsWith("\n") ? "" : "\n"}${end}`;
}

export const cliLine = (words) => `trainyard ${words.map(quoted).join(" ")}`;

export const target = (of) => of.path + query(of.query || {});

const user = '"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"';
// Only where there is one: curl signs an empty header, and does not send it.
const token = "AWS_SESSION_TOKEN";
const session = `\${${token}:+-H "x-amz-security-token: $${token}"}`;

export function curlLine(context, method, path, { body, key } = {}) {
  const parts = [
    `curl --aws-sigv4 aws:amz:${context.region}:execute-api --user ${user}`,
    session,
    ...(key ? [`-H ${quoted(`idempotency-key: ${key}`)}`] : []),
    ...(body === undefined ? [`-X ${method}`] : ["-H 'content-type: application/json' -d @-"]),
    // Signed with %20; curl takes a plus sign for itself.
    quoted(context.apiUrl + path.replaceAll("+", "%20")),
  ];
  return parts.join(" \\\n  ") + (body === undefined ? "" : heredoc(JSON.stringify(body)));
}

// Which API the proxy speaks to; asked once.
let found;
export const context = () => (found ||= call("GET", "/context.json"));
