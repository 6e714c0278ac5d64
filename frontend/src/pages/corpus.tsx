// A profile store: what matters in it, at which shapes, and how it changes.
import { useEffect, useMemo, useState } from "preact/hooks";
import { go, part, useAddress } from "../address";
import { ask, type Asked } from "../ask";
import { TrendChart } from "../charts/trend";
import { counted, axesText, bytes, ms, NONE, number, percent, shorten } from "../format";
import { Begin, Breaking, Facts, Problem, Section } from "../parts";
import { seriesOf, type Series } from "../series";
import { useParam } from "../params";
import { Table, type Column } from "../table";
import { slug } from "../take";
import type { CorpusPage, HotShape, HotShapes, ImportancePage, ImportanceRow, StoreProfile, StoreSeries, Trend } from "../types";

const BY = ["operator", "shape", "category", "role", "kernel"];
const FACTS = ["model", "framework", "version", "gpu"];
const CAPTION = "Profiles of the store";
/** Its name in the address. */
const LIST = slug(CAPTION);

/** How fast the store grows while someone adds to it. */
function Growing({ profiles }: { profiles: number }) {
  const [seen, setSeen] = useState<[number, number][]>([]);
  useEffect(() => setSeen((before) => [...before.slice(-12), [Date.now(), profiles]]), [profiles]);
  const first = seen[0];
  if (seen.length < 2 || !first || profiles === first[1]) return null;
  const seconds = (Date.now() - first[0]) / 1000;
  return <p class="faint" role="status">The store is growing: {counted(profiles - first[1], "profile")} added since this page opened, {number((profiles - first[1]) / seconds)} per second.</p>;
}

const UNMAPPED = "(unmapped)";

const titled = (name: string): string => (name === "gpu" ? "GPU" : `${name[0]?.toUpperCase()}${name.slice(1)}`);

export function CorpusView({ total }: { total: number }) {
  const { query } = useAddress();
  const chosen = useMemo(() => part(query, FACTS), [query.toString()]);
  const listed = useListed();
  const asked = ask<CorpusPage>(`/api/corpus?${new URLSearchParams([...chosen, ...listed])}`);
  useEffect(() => { if (asked.value && asked.value.status.profiles !== total) asked.again(); }, [total]);
  const by = query.get("by") ?? "operator";
  const find = query.get("find") ?? "";
  const importance = ask<ImportancePage>(`/api/corpus/importance?by=${by}${find ? `&find=${encodeURIComponent(find)}` : ""}${chosen.toString() && `&${chosen}`}`);
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(window.location.search);
    if (value) next.set(name, value);
    else next.delete(name);
    if (FACTS.includes(name)) next.delete(`start.${LIST}`);
    go(`/corpus?${next}`);
  };
  if (asked.error) return <><h1>Profile store</h1><Problem text={asked.error} /></>;
  const page = asked.value;
  const version = total || "";
  return (
    <>
      <h1>Profile store</h1>
      {importance.value && <Begin headline={importance.value.headline} severity={importance.value.headline.severity} />}
      {page && <Growing profiles={page.status.profiles} />}
      {page && <Facts facts={[["Profiles", number(page.status.profiles)], ["Chosen", number(page.in_all)], ["GPU time", ms(page.status.gpu_ms)], ["Events", number(page.status.events)], ["Size", bytes(page.status.bytes)], ["Kept by", page.status.engine]]} />}
      <div class="choose">
        {FACTS.map((name) => {
          const values = page?.facts[name] ?? [];
          return values.length > 1 && (
            <label key={name} class="field">{titled(name)}{" "}
              <select value={query.get(name) ?? ""} onChange={(event) => set(name, event.currentTarget.value)}>
                <option value="">all</option>
                {values.map((value) => <option key={value} value={value}>{value}</option>)}
              </select>
            </label>
          );
        })}
        <label class="field">Importance by{" "}
          <select value={by} onChange={(event) => set("by", event.currentTarget.value)}>{BY.map((value) => <option key={value} value={value}>{value}</option>)}</select>
        </label>
      </div>
      <Importance asked={importance} by={by} find={find} chosen={chosen.toString()} version={version} set={(text) => set("find", text)} />
      <TrendSection what={query.get("what") ?? "step"} chosen={chosen} groups={page?.series ?? []} names={(importance.value?.rows ?? []).map((row) => row.key).filter((key) => by !== "shape" && key !== UNMAPPED)} version={version} set={(what) => set("what", what)} />
      <Section id="profiles" title="Profiles">
        {page && <Table caption={CAPTION} columns={PROFILES} rows={page.profiles} most={25} pages={{ all: page.in_all, found: page.found, start: page.start, size: page.most }} />}
      </Section>
    </>
  );
}

/** Which page of the list of profiles to ask for: its table writes it into the address. */
function useListed(): [string, string][] {
  const values = [useParam(`find.${LIST}`)[0], useParam(`sort.${LIST}`)[0], useParam(`start.${LIST}`)[0]];
  return ["find", "sort", "start"].flatMap((name, at): [string, string][] => (values[at] ? [[name, values[at]]] : []));
}

/** Ask once more when the store has grown. */
function useNewest(asked: { again: () => void }, version: number | string): void {
  const [first, setFirst] = useState(version);
  useEffect(() => {
    if (first !== "" && version !== first) asked.again();
    setFirst(version);
  }, [version]);
}

interface ImportanceProps { asked: Asked<ImportancePage>; by: string; find: string; chosen: string; version: number | string; set: (find: string) => void }

function Importance({ asked, by, find, chosen, version, set }: ImportanceProps) {
  useNewest(asked, version);
  const most = Math.max(1, ...(asked.value?.rows.map((row) => row.ci95_pct?.[1] ?? row.importance_pct) ?? []));
  const columns = useMemo<Column<ImportanceRow>[]>(() => [
    { id: "key", title: titled(by), text: true, long: true, value: (row) => row.key, show: (row) => <span title={row.key}><Breaking text={shorten(row.operator && row.axes ? `${row.operator} ${axesText(row.axes)}` : row.key, 90)} /></span> },
    { id: "importance", title: "Importance", value: (row) => row.importance_pct, show: (row) => <span class="with-bar">{percent(row.importance_pct, 2)}<Interval row={row} most={most} /></span> },
    { id: "ci", spare: 6, title: "95 % interval", value: (row) => row.ci95_pct?.[0] ?? null, show: (row) => (row.ci95_pct ? `${row.ci95_pct[0].toFixed(1)} to ${row.ci95_pct[1].toFixed(1)}` : NONE) },
    { id: "profiles", spare: 5, title: "Profiles", value: (row) => row.profiles },
    { id: "calls", spare: 8, title: "Calls", value: (row) => row.calls, show: (row) => number(row.calls) },
    { id: "p50", spare: 4, title: "p50", value: (row) => row.p50_us, time: "us" },
    { id: "bound", spare: 7, title: "Bound p50", value: (row) => row.bound_p50_us, time: "us" },
    { id: "s", title: "S", value: (row) => row.s_pct, show: (row) => percent(row.s_pct) },
    { id: "back", spare: 3, title: "Can be saved", value: (row) => row.recoverable_pct, show: (row) => percent(row.recoverable_pct) },
  ], [by, most]);
  return (
    <Section id="importance" title="Importance" about={asked.value?.definition}>
      {asked.error && <Problem text={asked.error} />}
      {asked.value?.warnings.map((text) => <p key={text} class="warnings plain">{text}</p>)}
      {asked.value && (asked.value.in_all > asked.value.rows.length || find) && (
        <label class="search">
          <span class="hidden">Find in all rows</span>
          <input type="search" placeholder="Find in all rows…" defaultValue={find} onChange={(event) => set(event.currentTarget.value)} />
          <span class="faint" aria-live="polite">{number(asked.value.rows.length)} of {asked.value.found < asked.value.in_all ? `${number(asked.value.found)} that fit, of ` : ""}{number(asked.value.in_all)} rows: {percent(asked.value.shown_pct)} of the GPU time</span>
        </label>
      )}
      {!asked.value && !asked.error && <p class="faint">Reading…</p>}
      {asked.value && <Table key={by} caption={`Importance by ${by}`} columns={columns} rows={asked.value.rows} most={30} sort={{ id: "importance", down: true }} {...(asked.value.in_all > asked.value.rows.length || find ? {} : { search: (row: ImportanceRow) => `${row.key} ${axesText(row.axes)}` })} {...(by === "operator" ? { detail: (row: ImportanceRow) => <Shapes operator={row.key} chosen={chosen} /> } : {})} />}
    </Section>
  );
}

/** The share as a bar, its interval as a line over it. */
function Interval({ row, most }: { row: ImportanceRow; most: number }) {
  const at = (value: number) => `${(100 * value) / most}%`;
  const [low, high] = row.ci95_pct ?? [row.importance_pct, row.importance_pct];
  return (
    <span class="interval" role="img" aria-label={`${percent(low)} to ${percent(high)}`}>
      <span class="share" style={{ width: at(row.importance_pct) }} />
      <span class="range" style={{ left: at(low), width: at(high - low) }} />
    </span>
  );
}

const SHAPES: Column<HotShape>[] = [
  { id: "axes", title: "Axes", text: true, long: true, value: (row) => axesText(row.axes) },
  { id: "weight", title: "Weight", value: (row) => row.weight, show: (row) => percent(100 * row.weight) },
  { id: "sum", spare: 4, title: "Up to here", value: (row) => row.cumulative, show: (row) => percent(100 * row.cumulative) },
  { id: "shapes", spare: 5, title: "Shapes", help: "Shapes merged into this one", value: (row) => row.shapes },
  { id: "p50", spare: 2, title: "p50", value: (row) => row.p50_us, time: "us" },
  { id: "bound", spare: 3, title: "Bound p50", value: (row) => row.bound_p50_us, time: "us" },
  { id: "s", title: "S", value: (row) => row.s_pct, show: (row) => percent(row.s_pct) },
  { id: "where", spare: 6, title: "Seen in", text: true, value: (row) => `${row.origin.profiles} profiles, ${row.origin.gpus.join(", ")}` },
];

function Shapes({ operator, chosen }: { operator: string; chosen: string }) {
  const asked = ask<HotShapes>(operator === UNMAPPED ? null : `/api/corpus/shapes/${encodeURIComponent(operator)}?${chosen}`);
  if (operator === UNMAPPED) return <p class="faint">Kernels without a known operator have no axes.</p>;
  if (asked.error) return <p class="faint">{asked.error}</p>;
  const found = asked.value?.operators[0];
  if (!found) return <p class="faint">Reading…</p>;
  return (
    <>
      <p class="faint">{found.distinct} shapes; those below cover {percent(100 * found.cover)} of the time whose axes are known ({percent(found.known_pct)} of all).</p>
      <Table caption={`Hot shapes of ${operator}`} columns={SHAPES} rows={found.shapes} most={30} />
    </>
  );
}

interface TrendProps { what: string; chosen: URLSearchParams; groups: StoreSeries[]; names: string[]; version: number | string; set: (what: string) => void }

function TrendSection({ what, chosen, groups, names, version, set }: TrendProps) {
  const series = useMemo(() => seriesOf(groups, chosen), [groups, chosen]);
  return (
    <Section id="trend" title="Over time" about={`${series.length > 1 ? "One line per model and GPU, the largest first: other models and GPUs are other work. " : ""}Dashed lines mark change points.`}>
      <label class="field">of{" "}
        <input key={what} defaultValue={what} list="trend-of" onChange={(event) => set(event.currentTarget.value)} aria-label="Operator, category or step" />
        <datalist id="trend-of">{["step", ...names].map((name) => <option key={name} value={name} />)}</datalist>
      </label>
      {series.map((one) => <TrendLine key={one.query} what={what} series={one} named={series.length > 1} version={version} />)}
    </Section>
  );
}

function TrendLine({ what, series, named, version }: { what: string; series: Series; named: boolean; version: number | string }) {
  const asked = ask<Trend>(`/api/corpus/trend?what=${encodeURIComponent(what)}${series.query && `&${series.query}`}`);
  useNewest(asked, version);
  const trend = asked.value;
  return (
    <>
      {named && <h3>{series.name}</h3>}
      {asked.error ? <Problem text={asked.error} /> : trend && <><TrendChart trend={trend} name={named ? series.name : ""} /><p class="faint small">The latest {counted(trend.points.length, "run")} by date{trend.left_out ? `; left out: ${counted(trend.left_out, "profile")} older, or without a date or data for it` : ""}.</p></>}
    </>
  );
}

const PROFILES: Column<StoreProfile>[] = [
  { id: "file", title: "File", text: true, long: true, value: (row) => row.file, show: (row) => <span title={row.file}><Breaking text={row.file.split("/").slice(-2).join("/")} /></span> },
  { id: "model", spare: 5, title: "Model", text: true, value: (row) => row.model ?? NONE },
  { id: "framework", spare: 2, title: "Framework", text: true, tight: true, value: (row) => [row.framework, row.version].filter(Boolean).join(" ") || NONE },
  { id: "gpu", spare: 1, title: "GPU", text: true, value: (row) => row.gpu ?? NONE },
  { id: "date", spare: 6, title: "Recorded", text: true, tight: true, value: (row) => (row.recorded_ns ? new Date(row.recorded_ns / 1e6).toISOString().slice(0, 10) : NONE) },
  { id: "steps", spare: 4, title: "Steps", value: (row) => row.steps },
  { id: "time", title: "GPU time", value: (row) => row.gpu_ms, time: "ms" },
  { id: "decode", spare: 7, title: "Decode", value: (row) => row.decode_pct, show: (row) => percent(row.decode_pct, 0) },
];
