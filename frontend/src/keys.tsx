// Keys of the whole page: `/` filters, j and k go from row to row, `?` lists them.
import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["/", "filter the table in sight"],
  ["j, k", "next and previous row"],
  ["Enter", "follow the row in all charts"],
  ["Escape", "leave the field; clear the choice in the time line"],
  ["W, S, A, D", "zoom and move the time line"],
  ["0, F, R", "all of the time line, the chosen event, choose the range in sight"],
  ["?", "this list"],
];

const inSight = (element: Element): boolean => {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 60 && top < window.innerHeight;
};

function filter(): boolean {
  const fields = [...document.querySelectorAll<HTMLInputElement>("main input[type=search]")];
  const field = fields.find(inSight) ?? fields[0];
  field?.focus();
  return field !== undefined;
}

function move(by: 1 | -1): boolean {
  // From the last row of a table to the first of the next: the first row in sight may be such a last one.
  const focused = document.activeElement?.closest<HTMLElement>("main tbody tr[tabindex]");
  const rows = [...document.querySelectorAll<HTMLElement>("main tbody tr[tabindex]")].filter((row) => row.checkVisibility());
  const at = focused ? rows.indexOf(focused) + by : rows.findIndex(inSight);
  rows[Math.max(0, Math.min(rows.length - 1, at))]?.focus();
  return rows.length > 0;
}

export function Keys() {
  const list = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) {
        if (event.key === "Escape") target.blur();
        return;
      }
      const done = event.key === "/" ? filter() : event.key === "j" ? move(1) : event.key === "k" ? move(-1) : event.key === "?" ? (list.current?.open ? list.current.close() : list.current?.showModal(), true) : false;
      if (done) event.preventDefault();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
  return (
    <dialog ref={list} class="keys" aria-label="Keys">
      <h2>Keys</h2>
      <dl>{KEYS.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>
  );
}
