// The address of the page is its state: where it is, and what is filtered, sorted and selected.
import { computed, signal } from "@preact/signals";

const here = () => ({ path: location.pathname, search: location.search });
export const place = signal(here());
addEventListener("popstate", () => (place.value = here()));

export const params = computed(() => new URLSearchParams(place.value.search));

export function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  const before = place.value.path;
  place.value = here();
  if (before !== place.value.path) {
    scrollTo(0, 0);
    // A screen reader hears that there is another page.
    requestAnimationFrame(() => document.querySelector("h1")?.focus());
  }
}

// The same page with other values; an empty one goes.
export function set(changes) {
  const next = new URLSearchParams(place.value.search);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const one of [].concat(value ?? [])) if (one !== "") next.append(name, one);
  }
  const text = next.toString();
  go(place.value.path + (text ? `?${text}` : ""), { replace: true });
}

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey) return;
  if (event.shiftKey || link.target || link.origin !== location.origin) return;
  if (link.getAttribute("href").startsWith("#") || link.hasAttribute("download")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
