// The address of a view: a path and a query, in the browser's own history.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { below, within } from "./root";

const listeners = new Set<() => void>();

/** Go to a view. One that only answers otherwise stays where it is; another one begins at its top, for the keyboard too. */
export function go(to: string): void {
  const before = window.location.pathname;
  window.history.pushState(null, "", below(to));
  for (const tell of listeners) tell();
  if (window.location.pathname === before) return;
  window.scrollTo(0, 0);
  document.getElementById("main")?.focus({ preventScroll: true });
}

window.addEventListener("popstate", () => {
  for (const tell of listeners) tell();
});

const read = () => ({ path: within(window.location.pathname), query: new URLSearchParams(window.location.search) });

export function useAddress(): { path: string; query: URLSearchParams } {
  const [address, set] = useState(read);
  useEffect(() => {
    const tell = () => set(read());
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return address;
}

/** Those of the given names that an address has a value for. */
export function part(query: URLSearchParams, names: readonly string[]): URLSearchParams {
  return new URLSearchParams([...query].filter(([name, value]) => names.includes(name) && value));
}

export function Link({ to, children, class: name, current }: { to: string; children: ComponentChildren; class?: string; current?: boolean }) {
  return (
    <a href={below(to)} class={name} aria-current={current ? "page" : undefined} onClick={(event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
      event.preventDefault();
      go(to);
    }}>{children}</a>
  );
}
