// The first page: all profiles with what is wrong with each; tick two of them to compare, or the ranks of a run.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { go, Link } from "../address";
import type { Asked } from "../ask";
import { phaseColor } from "../colors";
import { counted, ms, NONE, percent, times } from "../format";
import { pairsOf } from "../pairs";
import { Breaking, Problem, Section } from "../parts";
import { Table, type Column } from "../table";
import type { Overview, ProfileEntry } from "../types";

export function Home({ overview, upload }: { overview: Asked<Overview>; upload: ComponentChildren }) {
  const value = overview.value;
  const [ticked, setTicked] = useState<string[]>([]);
  const columns = useMemo(() => [tick(ticked, setTicked), ...COLUMNS], [ticked]);
  if (!value) return <><h1>Profiles</h1>{overview.error ? <Problem text={overview.error} /> : <p class="faint">Reading…</p>}</>;
  const unread = value.profiles.filter((row) => row.card === null).length;
  const gpus = [...new Set(value.profiles.flatMap((row) => row.card?.gpu ?? []))];
  return (
    <>
      <h1 class="hidden">Profiles</h1>
      <Section id="profiles" title="Profiles" about={<>{counted(value.profiles.length, "profile")}{gpus.length > 0 && ` of ${gpus.join(", ")}`}.{unread > 0 && unread < value.profiles.length && ` ${unread} not looked into yet.`} Open one to see where its time goes; tick two to compare or diagnose them. New files in the folders appear here.</>}>
        {upload}
        <Pairs profiles={value.profiles} />
        {ticked.length > 0 && <Chosen ids={ticked} profiles={value.profiles} clear={() => setTicked([])} />}
        <Table caption="Profiles" rows={value.profiles} search={(row) => `${row.label} ${row.path} ${row.card?.gpu ?? ""} ${row.card?.model ?? ""} ${row.card?.framework ?? ""} ${row.card?.finding ?? ""}`} columns={columns} />
        {value.profiles.length === 0 && <p class="about">Nothing to show yet. Start with <code>solscope serve FOLDER</code>, or record a profile with <code>solscope capture</code>.</p>}
        {value.skipped.length > 0 && <details><summary>{counted(value.skipped.length, "file")} {value.skipped.length === 1 ? "is" : "are"} not shown</summary><ul>{value.skipped.map(([path, why]) => <li key={path}>{path}: {why}</li>)}</ul></details>}
      </Section>
    </>
  );
}

function Pairs({ profiles }: { profiles: ProfileEntry[] }) {
  const pairs = useMemo(() => pairsOf(profiles), [profiles]);
  if (!pairs.length) return null;
  return (
    <ul class="pairs" aria-label="Pairs to compare">
      {pairs.map(([fast, slow]) => <li key={`${fast.id} ${slow.id}`}>{slow.label} takes {times((slow.card?.step_ms ?? 0) / (fast.card?.step_ms ?? 1))} the step time of {fast.label}: <Link to={`/diagnose?a=${fast.id}&b=${slow.id}`}>diagnose</Link> · <Link to={`/compare?a=${fast.id}&b=${slow.id}`}>compare</Link></li>)}
    </ul>
  );
}

function Chosen({ ids, profiles, clear }: { ids: string[]; profiles: ProfileEntry[]; clear: () => void }) {
  const labels = ids.map((id) => profiles.find((one) => one.id === id)?.label ?? "").join(", ");
  const [a, b] = ids.map(encodeURIComponent);
  const ranks = ids.every((id) => profiles.find((one) => one.id === id)?.card?.rank != null);
  return (
    <p class="chosen" role="status">
      {labels}{" "}
      {ids.length === 2 && <><button type="button" onClick={() => go(`/compare?a=${a}&b=${b}`)}>Compare</button> <button type="button" onClick={() => go(`/diagnose?a=${a}&b=${b}`)}>Diagnose: the second is the slow one</button> </>}
      {ids.length > 1 && ranks && <button type="button" onClick={() => go(`/ranks?of=${ids.join(",")}`)}>Ranks of one run</button>}
      {ids.length === 1 && <span class="faint">tick one more </span>}
      {" "}<button type="button" onClick={clear}>Clear</button>
    </p>
  );
}

const tick = (ticked: string[], set: (ids: string[]) => void): Column<ProfileEntry> => ({
  id: "tick", title: "✓", help: "Chosen profiles first", value: (row) => (ticked.includes(row.id) ? 1 : 0),
  show: (row) => <input type="checkbox" aria-label={`Choose ${row.label}`} checked={ticked.includes(row.id)} onChange={(event) => set(event.currentTarget.checked ? [...ticked, row.id] : ticked.filter((id) => id !== row.id))} />,
});

const WIDTH = 72;

/** Step times along the recording, from 0. */
function Spark({ steps, phase }: { steps: number[]; phase: string | null }) {
  if (steps.length < 3) return null;
  const most = Math.max(...steps);
  const wide = WIDTH / steps.length;
  return <svg class="spark" width={WIDTH} height="18" role="img" aria-label={`${steps.length} step times, at most ${ms(most)}`}>{steps.map((time, at) => <rect key={at} x={at * wide} y={18 - (17 * time) / most} width={Math.max(0.6, wide - 0.4)} height={(17 * time) / most} fill={phaseColor(phase)} />)}</svg>;
}

const COLUMNS: Column<ProfileEntry>[] = [
  { id: "label", title: "Profile", text: true, long: true, value: (row) => row.label, show: (row) => <span title={row.path}><Link to={`/profile/${row.id}`}><Breaking text={row.label} /></Link></span> },
  { id: "gpu", spare: 4, title: "GPU", text: true, tight: true, value: (row) => row.card?.gpu ?? NONE },
  { id: "model", spare: 6, title: "Model", text: true, value: (row) => row.card?.model ?? NONE },
  { id: "framework", spare: 7, title: "Framework", text: true, tight: true, value: (row) => row.card?.framework ?? NONE },
  { id: "step", spare: 2, title: "Step", help: "Median step of the phase that the finding is about", value: (row) => row.card?.step_ms, time: "ms", show: (row, text) => <>{text}{row.card?.phase && <span class="faint small block">{row.card.phase}</span>}</> },
  { id: "spark", spare: 5, title: "Steps", help: "Step times along the recording", value: (row) => row.card?.spark_ms.length ?? null, show: (row) => (row.card ? <Spark steps={row.card.spark_ms} phase={row.card.phase} /> : null) },
  { id: "busy", spare: 1, title: "Busy", help: "GPU busy, of a usual step", value: (row) => row.card?.busy_pct, show: (row) => percent(row.card?.busy_pct) },
  { id: "finding", title: "Finding", text: true, long: true, value: (row) => row.card?.finding ?? NONE, show: (row) => (row.card ? <span title={row.card.sentence}>{row.card.finding}</span> : <span class="faint">not looked into yet</span>) },
  { id: "date", spare: 3, title: "Recorded", text: true, tight: true, value: (row) => (row.card?.recorded_ns ? new Date(row.card.recorded_ns / 1e6).toISOString().slice(0, 10) : NONE) },
  { id: "size", spare: 8, title: "Size", value: (row) => row.bytes, bytes: true },
];
