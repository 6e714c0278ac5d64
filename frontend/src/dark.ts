// Light or dark: what the reader chose here, else what the system says.
import { useEffect, useState } from "preact/hooks";

export type Choice = "auto" | "light" | "dark";

const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let choice: Choice = "auto";

export function choose(next: Choice): void {
  choice = next;
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const tell of listeners) tell();
}

export const chosen = (): Choice => choice;
const isDark = (): boolean => choice === "dark" || (choice === "auto" && system.matches);

system.addEventListener("change", () => choose(choice));

export function useDark(): boolean {
  const [dark, set] = useState(isDark());
  useEffect(() => {
    const tell = () => set(isDark());
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return dark;
}
