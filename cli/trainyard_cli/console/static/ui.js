// Small parts that all pages share.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { changes, poll } from "./api.js";
import { tone } from "./format.js";
import { arriving, set } from "./route.js";

export const Status = ({ value }) =>
  html`<span class="status ${tone(value)}"><i aria-hidden="true"></i>${value}</span>`;

export function Title({ children }) {
  const heading = useRef();
  useEffect(() => {
    if (arriving()) heading.current.focus();
  }, []);
  return html`<h1 tabindex="-1" ref=${heading}>${children}</h1>`;
}

export const Empty = ({ title, children }) =>
  html`<div class="empty"><strong>${title}</strong><div>${children}</div></div>`;

export const Trouble = ({ error }) =>
  error &&
  html`<div class="trouble" role="alert">
    <strong>${error.title || "Something went wrong"}</strong>
    <pre>${error.message}</pre>
    ${error.nextStep && html`<p>${error.nextStep}</p>`}
  </div>`;

// A table that is wider or longer than its place scrolls, by the keyboard, too.
export const Scroll = ({ label = "Table", children }) =>
  html`<div class="scroll" tabindex="0" role="group" aria-label=${label}>${children}</div>`;

export const Loading = () => html`<p class="quiet" role="status">Loading …</p>`;

export const Fact = ({ name, children, hint }) =>
  html`<div class="fact" title=${hint}><dt>${name}</dt><dd>${children}</dd></div>`;

// A filter whose value is in the address. It takes effect when typing ends.
export function Filter({ name, value, label, type = "search", ...rest }) {
  const timer = useRef();
  const change = (event) => {
    const text = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set({ [name]: text }), 300);
  };
  return html`<label class="field"><span>${label}</span>
    <input type=${type} value=${value || ""} onInput=${change} ...${rest} /></label>`;
}

export const Choice = ({ name, value, label, options, empty = "All" }) =>
  html`<label class="field"><span>${label}</span>
    <select value=${value || ""} onChange=${(event) => set({ [name]: event.target.value })}>
      ${empty != null && html`<option value="">${empty}</option>`}
      ${options.map((one) => html`<option value=${one}>${one}</option>`)}
    </select></label>`;

// What `read` answers, again and again while the page is seen. [value, error]
export function useLive(read, inputs, every) {
  const [state, change] = useState([null, null]);
  const made = changes.value;
  useEffect(() => {
    change(([value]) => [value, null]);
    return poll(async (stop) => {
      try {
        const value = await read(stop);
        if (stop.aborted) return false;
        change((before) => (before[0] === value && !before[1] ? before : [value, null]));
        return value?.final ? false : undefined;
      } catch (error) {
        if (!stop.aborted) change(([value]) => [value, error]);
        throw error;
      }
    }, every);
  }, [...inputs, made]);
  return state;
}

export function Copy({ text, label = "Copy" }) {
  const [done, mark] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    mark(true);
    setTimeout(() => mark(false), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}
    >${done ? "Copied" : label}</button>`;
}

export const Tabs = ({ name, value, tabs }) =>
  html`<nav class="tabs" aria-label="Parts of this page">
    ${tabs.map(
      ([id, label]) => html`<a href=${`?${name}=${id}`} aria-current=${
        id === value ? "page" : undefined
      } onClick=${(event) => {
        event.preventDefault();
        set({ [name]: id });
      }}>${label}</a>`,
    )}
  </nav>`;

// Only links that lead to the web, or to ourselves: text of jobs is no address.
export const safe = (href) => (/^(https:\/\/|http:\/\/127\.0\.0\.1[:/])/.test(href) ? href : null);
