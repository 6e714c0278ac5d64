// A table that sorts by any column and filters by text; plain HTML, so that it prints and reads aloud.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { useFit } from "./fit";
import { number } from "./format";
import { Breaking } from "./parts";
import { useParam } from "./params";
import { csvOf, fileNameOf, markdownOf, save, slug } from "./take";

export interface Column<Row> {
  id: string;
  title: string;
  /** What it sorts by; text sorts as text, null goes last. */
  value: (row: Row) => string | number | null | undefined;
  show?: (row: Row) => ComponentChildren;
  text?: boolean;
  help?: string;
  /** Left out where the table would be wider than its place, the highest first; a button brings it back. */
  spare?: number;
  /** Never broken into lines. */
  tight?: boolean;
  /** Holds long text: keeps a readable width and lets the table scroll. */
  long?: boolean;
}

interface Order { id: string; down: boolean }

/** An order as the address has it, if the table has such a column. */
function orderOf<Row>(text: string | null, columns: Column<Row>[]): Order | undefined {
  const id = text?.replace(/-(up|down)$/, "");
  return columns.some((column) => column.id === id) ? { id: id as string, down: text?.endsWith("-down") ?? false } : undefined;
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
}

/** Rows that a long table begins with, and by which it grows when its end is near. */
const CHUNK = 150;

/** Columns from which on a table is set closer. */
const MANY = 10;

export function Table<Row>({ caption, columns: all, rows, search, sort, most = 50, detail, choice }: Props<Row>) {
  const name = slug(caption);
  const [sorting, setSorting] = useParam(`sort.${name}`);
  const [finding, setQuery] = useParam(`find.${name}`);
  const query = finding ?? "";
  const order = useMemo(() => orderOf(sorting, all) ?? sort, [sorting, all, sort?.id, sort?.down]);
  const setOrder = (next: Order) => setSorting(next.id === sort?.id && next.down === sort.down ? null : `${next.id}${next.down ? "-down" : "-up"}`);
  const [long, setLong] = useState(false);
  const [open, setOpen] = useState<ReadonlySet<Row>>(new Set());
  const found = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = search && words.length ? rows.filter((row) => words.every((word) => search(row).toLowerCase().includes(word))) : rows;
    const column = order && all.find((one) => one.id === order.id);
    return column && order ? sorted(kept, column.value, order.down) : kept;
  }, [rows, query, order, all, search]);
  // A long table is never whole: it grows as one scrolls, and is short again after it has been sorted or filtered.
  const [grown, setGrown] = useState({ found, count: CHUNK });
  const count = grown.found === found ? grown.count : CHUNK;
  const shown = useMemo(() => found.slice(0, long ? count : most), [found, long, most, count]);
  const grow = (event: Event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget as HTMLElement;
    if (long && shown.length < found.length && scrollTop + clientHeight > scrollHeight - 600) setGrown({ found, count: count + CHUNK });
  };
  const cells = () => ({ titles: all.map((column) => column.title), rows: found.map((row) => all.map((column) => column.value(row) ?? null)) });
  const { place, columns, whole, setWhole } = useFit(all, shown, order?.id);
  const searches = search !== undefined && rows.length > 8;
  return (
    <div class="table">
      {(searches || whole || columns.length < all.length) && (
        <div class="tools">
          {searches && (
            <label class="search">
              <span class="hidden">Filter {caption}</span>
              <input type="search" placeholder="Filter…" value={query} onInput={(event) => setQuery(event.currentTarget.value, true)} />
              <span class="faint" aria-live="polite">{found.length === rows.length ? `${number(rows.length)} rows` : `${number(found.length)} of ${number(rows.length)} rows`}</span>
            </label>
          )}
          {(whole || columns.length < all.length) && <button type="button" class="fit" aria-pressed={whole} onClick={() => setWhole(!whole)}>{whole ? "Fewer columns" : `All ${all.length} columns`}</button>}
        </div>
      )}
      <div class={long ? "scroll tall" : "scroll"} ref={place} onScroll={grow} tabIndex={0} role="region" aria-label={caption}>
        <table class={[all.length >= MANY && "dense", whole && "whole"].filter(Boolean).join(" ")}>
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.id} scope="col" class={cell(column)} aria-sort={order?.id === column.id ? (order.down ? "descending" : "ascending") : "none"}>
                  <button type="button" title={column.help} onClick={() => setOrder({ id: column.id, down: order?.id === column.id ? !order.down : !column.text })}>
                    {column.title.split(" ").flatMap((word, at) => [at ? " " : "", <span key={at} class="word"><Breaking text={word} /></span>])}
                    {order?.id === column.id && <span aria-hidden="true" class="arrow">{order.down ? "▾" : "▴"}</span>}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, at) => {
              const isOpen = open.has(row);
              const body = (
                <tr key={at} {...(choice && { tabIndex: -1, class: choice.on(row) ? "follow on" : "follow", onClick: (event: MouseEvent) => !(event.target as HTMLElement).closest("button, a, summary, input, code") && choice.pick(row), onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && event.target === event.currentTarget && choice.pick(row) })}>
                  {columns.map((column, index) => (
                    <td key={column.id} class={cell(column)}>
                      {detail && index === 0 ? (
                        <span class="opener"><button type="button" class="open" aria-expanded={isOpen} aria-label={`${isOpen ? "Close" : "Open"} ${column.value(row) ?? ""}`} onClick={() => setOpen(toggled(open, row))}>
                          {isOpen ? "▾" : "▸"}
                        </button><span>{content(column, row)}</span></span>
                      ) : content(column, row)}
                    </td>
                  ))}
                </tr>
              );
              return isOpen && detail ? [body, <tr key={`${at}-detail`} class="detail"><td colSpan={columns.length}>{detail(row)}</td></tr>] : body;
            })}
            {!shown.length && <tr><td class="text faint" colSpan={columns.length}>{rows.length ? "No rows match the filter." : "No rows."}</td></tr>}
          </tbody>
        </table>
      </div>
      {found.length > shown.length && !long && (
        <button type="button" class="more" onClick={() => setLong(true)}>Show all {number(found.length)} rows</button>
      )}
      {found.length > 1 && (
        <p class="take small">
          <button type="button" aria-label={`${caption} as CSV`} onClick={() => save(fileNameOf(caption, "csv"), csvOf(cells()), "text/csv")}>CSV</button>
          <button type="button" aria-label={`${caption} as JSON`} onClick={() => save(fileNameOf(caption, "json"), JSON.stringify(found, null, 1), "application/json")}>JSON</button>
          <button type="button" aria-label={`${caption} as Markdown`} onClick={() => save(fileNameOf(caption, "md"), markdownOf(cells()), "text/markdown")}>Markdown</button>
        </p>
      )}
    </div>
  );
}

function content<Row>(column: Column<Row>, row: Row): ComponentChildren {
  if (column.show) return column.show(row);
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

let made: Intl.Collator | undefined;
const collator = (): Intl.Collator => (made ??= new Intl.Collator("en", { numeric: true }));

/** Rows in order; values are taken once each, and null goes last. */
function sorted<Row>(rows: Row[], value: Column<Row>["value"], down: boolean): Row[] {
  const way = down ? -1 : 1;
  const keyed = rows.map((row, at) => ({ row, at, key: value(row) ?? null }));
  const known = keyed.filter((one) => one.key !== null);
  if (known.every((one) => typeof one.key === "number")) known.sort((a, b) => way * ((a.key as number) - (b.key as number)) || a.at - b.at);
  else known.sort((a, b) => way * collator().compare(String(a.key), String(b.key)) || a.at - b.at);
  return [...known, ...keyed.filter((one) => one.key === null)].map((one) => one.row);
}
