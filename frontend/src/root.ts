// Where the dashboard is on its host: behind a proxy that may be below a path, which the server states in the page.

export const ROOT: string = (typeof document === "undefined" ? undefined : document.body.dataset["root"]) ?? "";

/** The address of a path of the dashboard, for the browser. */
export const below = (path: string): string => ROOT + path;

/** The path of the dashboard that an address of the browser stands for. */
export function within(pathname: string, root: string = ROOT): string {
  const inside = pathname === root || pathname.startsWith(`${root}/`) ? pathname.slice(root.length) : pathname;
  return inside || "/";
}
