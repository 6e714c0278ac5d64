// A table that sorts by any column and filters by text; plain HTML, so that it prints and reads aloud.
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useFit } from "./fit";
import { NONE, number } from "./format";
import { filtered, sorted, windowOf } from "./order";
import { setParams, useParam } from "./params";
import { Breaking } from "./parts";
import { csvOf, fileNameOf, markdownOf, save, slug } from "./take";
import { aboutTerms } from "./terms";
import { inUnit, SIZE, sizeFormat, timeFormat, type UnitFormat } from "./units";

export interface Column<Row> {
  id: string;
  title: string;
  /** What it sorts by; text sorts as text, null goes last. */
  value: (row: Row) => string | number | null | undefined;
  /** The cell; `text` is the value in the unit of the column, where it has one, and `write` writes others like it. */
  show?: (row: Row, text: string, write: (value: number) => string) => ComponentChildren;
  text?: boolean;
  help?: string;
  /** Left out where the table would be wider than its place, the highest first; a button brings it back. */
  spare?: number;
  /** Never broken into lines. */
  tight?: boolean;
  /** Holds long text: keeps a readable width and lets the table scroll. */
  long?: boolean;
  /** The value is a time in this unit; all times of a column are shown in one, which its head names. */
  time?: "ms" | "us" | "ns";
  /** Times in the unit of the value with so many decimals, however long they get: as a table that was published has them. */
  decimals?: number;
  /** The value is a number of bytes; all of a column are shown in one unit, which its head names. */
  bytes?: boolean;
  /** Columns of times share their unit with those that have the same word here, or none. */
  unit?: string;
  /** A difference: written with its sign. */
  signed?: boolean;
}

interface Order { id: string; down: boolean }

/** An order as the address has it, if the table has such a column. */
function orderOf<Row>(text: string | null, columns: Column<Row>[]): Order | undefined {
  const id = text?.replace(/-(up|down)$/, "");
  return columns.some((column) => column.id === id) ? { id: id as string, down: text?.endsWith("-down") ?? false } : undefined;
}

const UNITS = { ms: "ms", us: "µs", ns: "ns" } as const;
const NS = { ms: SIZE.ms, us: SIZE.µs, ns: 1 };

/** What a figure of a column is multiplied by, for nanoseconds or bytes. */
const scaleOf = <Row,>(column: Column<Row>): number => (column.time ? NS[column.time] : 1);

/** The value of a column with a unit, in nanoseconds or bytes. */
function figureOf<Row>(column: Column<Row>, row: Row): number | null {
  const value = column.value(row);
  return typeof value === "number" ? value * scaleOf(column) : null;
}

/** One unit for all columns of times but those set apart, and for all of sizes, by all rows. */
function formatsOf<Row>(columns: Column<Row>[], rows: Row[]): Map<string, UnitFormat> {
  const groups = new Map<string, Column<Row>[]>();
  const fixed: [string, UnitFormat][] = [];
  for (const column of columns) {
    if (column.time && column.decimals !== undefined) {
      fixed.push([column.id, { unit: UNITS[column.time], decimals: column.decimals, needed: true }]);
      continue;
    }
    const name = column.time ? `time ${column.unit ?? ""}` : "bytes";
    if (column.time || column.bytes) groups.set(name, [...(groups.get(name) ?? []), column]);
  }
  return new Map([...fixed, ...[...groups].flatMap(([name, group]) => {
    const figures = group.flatMap((column) => rows.map((row) => figureOf(column, row)));
    const format = name === "bytes" ? sizeFormat(figures) : timeFormat(figures);
    return group.map((column): [string, UnitFormat] => [column.id, format]);
  })]);
}

/** Rows that the server has found, sorted and cut into pages: the address says which to ask for. */
export interface Pages {
  /** Rows before those that were looked for, and rows that were found. */
  all: number;
  found: number;
  /** Place of the first row of this page, and rows of a whole one. */
  start: number;
  size: number;
}

interface Props<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  search?: (row: Row) => string;
  sort?: Order;
  most?: number;
  detail?: (row: Row) => ComponentChildren;
  /** A row can be followed in all views of the page. */
  choice?: { on: (row: Row) => boolean; pick: (row: Row) => void };
  pages?: Pages;
}

/** Rows from which on only those in sight are drawn. */
const MANY_ROWS = 150;
/** Height of a row before one has been measured. */
const USUAL = 32;
/** Columns from which on a table is set closer, and from which on they can be chosen. */
const [MANY, CHOSEN] = [10, 4];

interface Sight { first: number; end: number; above: number; below: number; see: () => void; body: RefObject<HTMLTableSectionElement>; widths: number[] | null }

/** Which rows of a long table to draw: those in sight and some around them. Columns keep their widths while it scrolls. */
function useSight(place: RefObject<HTMLDivElement>, rows: unknown[], on: boolean, layout: string): Sight {
  const body = useRef<HTMLTableSectionElement>(null);
  const known = useRef({ rows, heights: new Map<number, number>(), usual: USUAL });
  if (known.current.rows !== rows) known.current = { rows, heights: new Map(), usual: known.current.usual };
  const [at, setAt] = useState({ top: 0, tall: 0 });
  const [kept, setKept] = useState<{ layout: string; widths: number[] } | null>(null);
  const see = () => {
    const element = place.current;
    if (on && element) setAt((before) => (before.top === element.scrollTop && before.tall === element.clientHeight ? before : { top: element.scrollTop, tall: element.clientHeight }));
  };
  const { heights, usual } = known.current;
  const part = on ? windowOf(rows.length, heights, usual, at.top, at.tall || window.innerHeight) : { first: 0, end: rows.length, above: 0, below: 0 };
  useLayoutEffect(() => {
    if (!on) return;
    // Another order or filter begins at the top.
    if (place.current) place.current.scrollTop = 0;
    see();
  }, [rows, on]);
  useLayoutEffect(() => {
    if (!on || !body.current) return;
    const seen = new Map<number, number>();
    for (const row of body.current.children) {
      const index = Number((row as HTMLElement).dataset["row"] ?? -1);
      if (index >= 0) seen.set(index, (seen.get(index) ?? 0) + row.getBoundingClientRect().height);
    }
    for (const [index, height] of seen) heights.set(index, height);
    if (seen.size && usual === USUAL) known.current.usual = [...seen.values()].reduce((sum, one) => sum + one, 0) / seen.size;
    if (kept?.layout !== layout) setKept({ layout, widths: [...(place.current?.querySelector("tr")?.cells ?? [])].map((one) => one.offsetWidth) });
  });
  return { ...part, see, body, widths: on && kept?.layout === layout ? kept.widths : null };
}

export function Table<Row>({ caption, columns: given, rows, search, sort, most = 50, detail, choice, pages }: Props<Row>) {
  const name = slug(caption);
  const [sorting, setSorting] = useParam(`sort.${name}`);
  const [finding, setQuery] = useParam(`find.${name}`);
  const turnTo = (start: number) => setParams({ [`start.${name}`]: start > 0 ? String(start) : null });
  const [picked, setPicked] = useParam(`columns.${name}`);
  const query = finding ?? "";
  const all = useMemo(() => pickedOf(given, picked), [given, picked]);
  const formats = useMemo(() => formatsOf(given, rows), [given, rows]);
  const order = useMemo(() => orderOf(sorting, given) ?? sort, [sorting, given, sort?.id, sort?.down]);
  const setOrder = (next: Order) => {
    const text = next.id === sort?.id && next.down === sort.down ? null : `${next.id}${next.down ? "-down" : "-up"}`;
    if (pages) setParams({ [`sort.${name}`]: text, [`start.${name}`]: null });
    else setSorting(text);
  };
  const [long, setLong] = useState(false);
  const [open, setOpen] = useState<ReadonlySet<Row>>(new Set());
  const found = useMemo(() => {
    if (pages) return rows;
    const fit = search ? filtered(rows, query, search) : rows;
    const column = order && given.find((one) => one.id === order.id);
    return column && order ? sorted(fit, column.value, order.down) : fit;
  }, [rows, query, order, given, search, pages !== undefined]);
  const listed = useMemo(() => (long ? found : found.slice(0, most)), [found, long, most]);
  const { place, columns, whole, wide, setWhole } = useFit(all, listed, order?.id);
  const sight = useSight(place, listed, long && listed.length > MANY_ROWS, `${columns.map((one) => one.id).join(" ")} ${measuredWidth(place)}`);
  const shown = listed.slice(sight.first, sight.end);
  const cells = () => ({ titles: given.map((column) => column.title), rows: found.map((row) => given.map((column) => column.value(row) ?? null)) });
  const searches = pages ? pages.all > 8 || query !== "" : search !== undefined && rows.length > 8;
  const isPart = pages !== undefined && (pages.start > 0 || pages.found > rows.length);
  const taken = isPart ? `This page of ${caption}` : caption;
  return (
    <div class="table">
      {(searches || whole || columns.length < all.length) && (
        <div class="tools">
          {searches && pages && (
            <label class="search">
              <span class="hidden">Find in {caption}</span>
              <input key={query} type="search" placeholder="Find in all rows…" defaultValue={query} onChange={(event) => setParams({ [`find.${name}`]: event.currentTarget.value, [`start.${name}`]: null })} />
              <span class="faint" aria-live="polite">{pages.found < pages.all ? `${number(pages.found)} of ${number(pages.all)} rows` : `${number(pages.all)} rows`}</span>
            </label>
          )}
          {searches && !pages && (
            <label class="search">
              <span class="hidden">Filter {caption}</span>
              <input type="search" placeholder="Filter…" value={query} onInput={(event) => setQuery(event.currentTarget.value, true)} />
              <span class="faint" aria-live="polite">{found.length === rows.length ? `${number(rows.length)} rows` : `${number(found.length)} of ${number(rows.length)} rows`}</span>
            </label>
          )}
          {(whole || columns.length < all.length) && <button type="button" class="fit" aria-pressed={whole} onClick={() => setWhole(!whole)}>{whole ? "Fewer columns" : `All ${all.length} columns`}</button>}
        </div>
      )}
      <div class={["scroll", long && "tall", !long && !wide && !whole && "free"].filter(Boolean).join(" ")} ref={place} onScroll={sight.see} tabIndex={0} role="region" aria-label={caption}>
        <table class={[given.length >= MANY && "dense", whole && "whole"].filter(Boolean).join(" ")} {...(sight.widths ? { style: { tableLayout: "fixed" }, "aria-rowcount": listed.length + 1 } : {})}>
          <caption class="hidden">{caption}</caption>
          {sight.widths && <colgroup>{sight.widths.map((width, at) => <col key={at} style={{ width: `${width}px` }} />)}</colgroup>}
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.id} scope="col" class={cell(column)} aria-sort={order?.id === column.id ? (order.down ? "descending" : "ascending") : "none"}>
                  <button type="button" title={column.help ?? aboutTerms(column.title)} onClick={() => setOrder({ id: column.id, down: order?.id === column.id ? !order.down : !column.text })}>
                    {column.title.split(" ").flatMap((word, at) => [at ? " " : "", <span key={at} class="word"><Breaking text={word} /></span>])}
                    {formats.get(column.id)?.needed && <span class="unit"> {formats.get(column.id)?.unit}</span>}
                    {order?.id === column.id && <span aria-hidden="true" class="arrow">{order.down ? "▾" : "▴"}</span>}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody ref={sight.body}>
            {sight.above > 0 && <Room key="above" height={sight.above} columns={columns.length} />}
            {shown.map((row, index) => {
              const at = sight.first + index;
              const isOpen = open.has(row);
              const turn = () => setOpen(toggled(open, row));
              const body = (
                <tr key={at} data-row={at} {...rowOf(row, choice, detail && turn)} {...(sight.widths ? { "aria-rowindex": at + 2 } : {})}>
                  {columns.map((column, first) => (
                    <td key={column.id} class={cell(column)}>
                      {detail && first === 0 ? (
                        <span class="opener"><button type="button" class="open" aria-expanded={isOpen} aria-label={`${isOpen ? "Close" : "Open"} ${column.value(row) ?? ""}`} onClick={turn}>
                          {isOpen ? "▾" : "▸"}
                        </button><span>{content(column, row, formats.get(column.id))}</span></span>
                      ) : content(column, row, formats.get(column.id))}
                    </td>
                  ))}
                </tr>
              );
              return isOpen && detail ? [body, <tr key={`${at}-detail`} data-row={at} class="detail"><td colSpan={columns.length}>{detail(row)}</td></tr>] : body;
            })}
            {sight.below > 0 && <Room key="below" height={sight.below} columns={columns.length} />}
            {!shown.length && <tr><td class="text faint" colSpan={columns.length}>{rows.length || pages?.all ? "No rows match the filter." : "No rows."}</td></tr>}
          </tbody>
        </table>
      </div>
      {found.length > listed.length && (
        <button type="button" class="more" onClick={() => setLong(true)}>Show all {number(found.length)} rows</button>
      )}
      {pages && isPart && (
        <nav class="turn" aria-label={`Pages of ${caption}`}>
          <button type="button" disabled={pages.start === 0} onClick={() => turnTo(pages.start - pages.size)}>Previous</button>
          <span class="faint" role="status">{rows.length ? `${number(pages.start + 1)} to ${number(pages.start + rows.length)} of ${number(pages.found)}` : `none from ${number(pages.start + 1)} on`}</span>
          <button type="button" disabled={pages.start + rows.length >= pages.found} onClick={() => turnTo(pages.start + pages.size)}>Next</button>
        </nav>
      )}
      {found.length > 1 && (
        <div class="take small">
          {isPart && <span class="faint">This page as</span>}
          <button type="button" aria-label={`${taken} as CSV`} onClick={() => save(fileNameOf(caption, "csv"), csvOf(cells()), "text/csv")}>CSV</button>
          <button type="button" aria-label={`${taken} as JSON`} onClick={() => save(fileNameOf(caption, "json"), JSON.stringify(found, null, 1), "application/json")}>JSON</button>
          <button type="button" aria-label={`${taken} as Markdown`} onClick={() => save(fileNameOf(caption, "md"), markdownOf(cells()), "text/markdown")}>Markdown</button>
          {given.length >= CHOSEN && <Columns caption={caption} all={given} shown={columns.map((one) => one.id)} picked={picked !== null} set={setPicked} />}
        </div>
      )}
    </div>
  );
}

/** The columns of the address, in the table's order; all where it names none of them. */
function pickedOf<Row>(all: Column<Row>[], picked: string | null): Column<Row>[] {
  const ids = picked?.split(",") ?? [];
  const found = all.filter((column) => ids.includes(column.id));
  return found.length ? found.map((column) => ({ ...column, spare: 0 })) : all;
}

const measuredWidth = (place: RefObject<HTMLDivElement>): number => place.current?.clientWidth ?? 0;

/** Rows that are not drawn, as empty room. */
const Room = ({ height, columns }: { height: number; columns: number }) => <tr class="room" aria-hidden="true" style={{ height: `${height}px` }}><td colSpan={columns} /></tr>;

/** Which columns to show; the choice stands in the address. */
function Columns<Row>({ caption, all, shown, picked, set }: { caption: string; all: Column<Row>[]; shown: string[]; picked: boolean; set: (value: string | null) => void }) {
  const change = (id: string, on: boolean) => {
    const next = all.map((column) => column.id).filter((one) => (one === id ? on : shown.includes(one)));
    if (next.length) set(next.join(","));
  };
  return (
    <details class="columns-of">
      <summary>Columns</summary>
      <fieldset>
        <legend class="hidden">Columns of {caption}</legend>
        {all.map((column) => <label key={column.id}><input type="checkbox" checked={shown.includes(column.id)} onChange={(event) => change(column.id, event.currentTarget.checked)} /> {column.title}{column.help && <span class="faint"> {column.help}</span>}</label>)}
        <button type="button" disabled={!picked} onClick={() => set(null)}>As many as fit</button>
      </fieldset>
    </details>
  );
}

/** What a row does: j and k go to it, Enter and a click follow or open it. */
function rowOf<Row>(row: Row, choice: Props<Row>["choice"], turn: (() => void) | undefined): JSX.HTMLAttributes<HTMLTableRowElement> {
  const act = choice ? () => choice.pick(row) : turn;
  return {
    tabIndex: -1,
    ...(act && { onKeyDown: (event) => { if (event.key === "Enter" && event.target === event.currentTarget) act(); } }),
    ...(choice && { class: choice.on(row) ? "follow on" : "follow", onClick: (event) => { if (!(event.target as HTMLElement).closest("button, a, summary, input, code")) choice.pick(row); } }),
  };
}

function content<Row>(column: Column<Row>, row: Row, format: UnitFormat | undefined): ComponentChildren {
  if (format) {
    const write = (figure: number | null) => (figure === null ? NONE : `${column.signed && figure > 0 ? "+" : ""}${inUnit(figure, format)}`);
    const text = write(figureOf(column, row));
    return column.show ? column.show(row, text, (value) => write(value * scaleOf(column))) : text;
  }
  if (column.show) return column.show(row, "", String);
  const value = column.value(row);
  if (typeof value !== "string") return number(value);
  return column.tight ? value : <Breaking text={value} />;
}

const cell = <Row,>(column: Column<Row>): string => `${column.text ? "text" : "number"}${column.long ? " long" : ""}${column.tight ? " tight" : ""}`;

function toggled<Row>(open: ReadonlySet<Row>, row: Row): ReadonlySet<Row> {
  const next = new Set(open);
  if (!next.delete(row)) next.add(row);
  return next;
}
