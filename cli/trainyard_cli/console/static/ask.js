// One question before each change: what will happen, how a terminal does it, what the API says.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { change } from "./api.js";
import { cliLine, context, curlLine, target } from "./shell.js";
import { Copy, Trouble } from "./ui.js";

const question = signal(null);
const said = signal("");
let asked = 0;

// title, verb, effects; method, path, query, body; cli; and, where they are of use: look (what is
// known by asking the API), etag, reason, force, keyed, failed, done, input.
export function ask(of) {
  said.value = "";
  question.value = { ...of, number: (asked += 1) };
}

export const Said = () => html`<p class="said" role="status">${said.value}${said.value &&
  html` <button type="button" class="small" onClick=${() => (said.value = "")}>Hide</button>`}</p>`;

export function Asked() {
  const of = question.value;
  return of && html`<${Question} key=${of.number} of=${of} />`;
}

const certain = (error) => error.status >= 400 && error.status < 500 && error.status !== 429;

function Question({ of }) {
  const box = useRef();
  // A key of its own for each question: sent twice, it is done once.
  const [key, renew] = useState(() => crypto.randomUUID());
  const sending = useRef(false);
  const [busy, mark] = useState(false);
  const [error, fail] = useState(null);
  const [given, give] = useState({ reason: "", force: false });
  const [seen, look] = useState(of.look ? null : []);
  const [place, at] = useState(null);
  useEffect(() => box.current.showModal(), []);
  useEffect(() => void context().then(at, fail), []);
  useEffect(() => {
    let left = false;
    of.look?.().then((one) => left || look(one), (wrong) => left || (look([]), fail(wrong)));
    return () => (left = true);
  }, [key]);
  const close = () => (question.value = null);
  const query = { ...of.query };
  if (given.force) query.force = "true";
  if (given.reason.trim()) query.reason = given.reason.trim();
  const path = target({ path: of.path, query });
  const words = [...of.cli, ...(given.force ? ["--force"] : []),
    ...(of.keyed ? ["--idempotency-key", key] : []),
    ...(query.reason ? ["--reason", query.reason] : [])];

  const send = async (event) => {
    event.preventDefault();
    if (sending.current) return;
    sending.current = true;
    mark(true);
    fail(null);
    try {
      const answer = await change(of.method, path, { body: of.body, key, etag: of.etag?.() });
      const wrong = of.failed?.(answer);
      if (wrong) throw wrong;
      said.value = of.done(answer) || "";
      close();
    } catch (wrong) {
      // Refused for certain: asking again is another request. Else it may have been done.
      if (!wrong.status || certain(wrong)) renew(crypto.randomUUID());
      fail(wrong);
      mark(false);
      sending.current = false;
    }
  };
  const keep = (event) => busy && event.preventDefault();
  return html`<dialog ref=${box} class="ask" aria-labelledby="ask-title" onCancel=${keep}
      onClose=${close}>
    <form onSubmit=${send}>
      <h2 id="ask-title">${of.title}</h2>
      <ul class="effects">${[...of.effects, ...(seen || [])].map((one) =>
        html`<li>${one}</li>`)}
        ${!seen && html`<li class="quiet">Asking what it would mean …</li>`}</ul>
      ${of.reason !== false && html`<label class="field"><span>Why (kept in the audit list)</span>
        <input type="text" maxlength="500" value=${given.reason} disabled=${busy}
          onInput=${(event) => give({ ...given, reason: event.target.value })} /></label>`}
      ${of.force && html`<label class="check"><input type="checkbox" checked=${given.force}
        disabled=${busy} onChange=${(event) => give({ ...given, force: event.target.checked })} />
        ${of.force}</label>`}
      <details><summary>The same in a terminal</summary>
        <${Line} name="Command" text=${cliLine(words) + (of.input || "")} />
        ${path.includes(":") && html`<p class="quiet">An old curl signs a path with a colon wrongly:
          8.23 does it right, 7.88 does not.</p>`}
        ${place && html`<${Line} name="curl" text=${curlLine(place, of.method, path, {
          body: of.body, key: of.keyed && key })} />`}</details>
      <${Trouble} error=${error} />
      <p class="answers">
        <button type="button" autofocus disabled=${busy} onClick=${() => box.current.close()}
          >Back</button>
        <button type="submit" class=${of.danger ? "danger" : "main"} disabled=${busy || !seen}
          >${busy ? "Asking …" : of.verb}</button></p>
    </form></dialog>`;
}

const Line = ({ name, text }) => html`<div class="line"><strong>${name}</strong>
  <${Copy} text=${text} label=${`Copy ${name}`} />
  <pre class="code" tabindex="0" aria-label=${name}>${text}</pre></div>`;
