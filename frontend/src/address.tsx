// The address of a view: a path and a query, in the browser's own history.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

const listeners = new Set<() => void>();

export function go(to: string): void {
  window.history.pushState(null, "", to);
  window.scrollTo(0, 0);
  for (const tell of listeners) tell();
}

window.addEventListener("popstate", () => {
  for (const tell of listeners) tell();
});

const read = () => ({ path: window.location.pathname, query: new URLSearchParams(window.location.search) });

export function useAddress(): { path: string; query: URLSearchParams } {
  const [address, set] = useState(read);
  useEffect(() => {
    const tell = () => set(read());
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return address;
}

export function Link({ to, children, class: name, current }: { to: string; children: ComponentChildren; class?: string; current?: boolean }) {
  return (
    <a href={to} class={name} aria-current={current ? "page" : undefined} onClick={(event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
      event.preventDefault();
      go(to);
    }}>{children}</a>
  );
}
