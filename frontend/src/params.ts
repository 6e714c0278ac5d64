// What the reader chose on a page stands in its address: the back button undoes it, and a link shows the same.
import { useEffect, useState } from "preact/hooks";

const listeners = new Set<() => void>();
const tellAll = () => {
  for (const tell of listeners) tell();
};

window.addEventListener("popstate", tellAll);

/** Be told when anything of the address changed. */
export function onParams(tell: () => void): () => void {
  listeners.add(tell);
  return () => void listeners.delete(tell);
}

export const params = (): URLSearchParams => new URLSearchParams(window.location.search);

/** Change the address; null takes a name out, and `quiet` leaves no step for the back button. */
export function setParams(changes: Record<string, string | null>, quiet = false): void {
  const query = params();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const next = `${window.location.pathname}${query.size ? `?${query}` : ""}${window.location.hash}`;
  if (next === `${window.location.pathname}${window.location.search}${window.location.hash}`) return;
  try {
    window.history[quiet ? "replaceState" : "pushState"](null, "", next);
  } catch {
    // Viewers that show a file in a frame of their own have no history for it.
    own.set("query", query);
  }
  tellAll();
}

/** What was chosen where there is no address to hold it. */
const own = new Map<"query", URLSearchParams>();

const read = (name: string): string | null => (own.get("query") ?? params()).get(name);

/** One value of the address, and how to change it. */
export function useParam(name: string): [string | null, (value: string | null, quiet?: boolean) => void] {
  const [value, set] = useState(() => read(name));
  useEffect(() => {
    const tell = () => set(read(name));
    tell();
    return onParams(tell);
  }, [name]);
  return [value, (next, quiet) => setParams({ [name]: next }, quiet)];
}
