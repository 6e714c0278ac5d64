// Colors of the page, as a canvas needs them.
export interface Ink { text: string; faint: string; line: string; surface: string; accent: string; page: string }

export function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const take = (name: string) => style.getPropertyValue(name).trim();
  return { text: take("--text"), faint: take("--faint"), line: take("--line"), surface: take("--surface"), accent: take("--accent"), page: take("--page") };
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
