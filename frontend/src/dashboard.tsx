// The dashboard: an address for every view, and the server's answers drawn by the same pages as in reports.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, type Asked } from "./ask";
import { go, Link, part, useAddress } from "./address";
import { Diverging } from "./charts/bench";
import { bytes, fileName } from "./format";
import { Keys } from "./keys";
import { COSTED, ModelChoice } from "./model";
import { BenchView } from "./pages/bench";
import { CorpusView } from "./pages/corpus";
import { ComparisonView } from "./pages/comparison";
import { DiagnosisView } from "./pages/diagnosis";
import { Home } from "./pages/home";
import { ProfileView } from "./pages/profile";
import { RanksView } from "./pages/ranks";
import { SingleView } from "./pages/single";
import { SuiteView } from "./pages/suite";
import { withChanges } from "./params";
import { Breaking, CopyLink, Problem, Section, ThemeChoice, WithParts } from "./parts";
import { below } from "./root";
import { Table } from "./table";
import type { BenchPage, ComparisonPage, Contrast, DiagnosisPage, Overview, ProfilePage, RanksPage, SinglePage, Working } from "./types";

export function Dashboard() {
  const { path, query } = useAddress();
  const overview = ask<Overview>("/api/overview", 3000);
  const [first, second] = path.split("/").filter(Boolean);
  const title = titleOf(first, second, query, overview.value);
  useEffect(() => {
    document.title = `${title} · solscope`;
  }, [title]);
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <header>
        <Link to="/" class="brand">solscope</Link>
        <nav aria-label="Views" class="pages">
          <Link to="/" current={!first}>Profiles</Link>
          <Link to="/compare" current={first === "compare"}>Compare</Link>
          <Link to="/diagnose" current={first === "diagnose"}>Diagnose</Link>
          {overview.value?.corpus && <Link to="/corpus" current={first === "corpus"}>Store</Link>}
          {overview.value && overview.value.results.length > 0 && <Link to="/bench" current={first === "bench"}>Benchmark</Link>}
          <Link to="/suite" current={first === "suite"}>Suite</Link>
        </nav>
        <CopyLink />
        <ThemeChoice />
      </header>
      <Keys />
      <main id="main" class="dashboard" tabIndex={-1}>
        {overview.error && overview.value && <Problem text={`This page may be out of date: ${overview.error}`} />}
        {!first && <Home overview={overview} upload={overview.value?.upload ? <Upload done={overview.again} toStore={overview.value.upload_to_store} /> : null} />}
        {first === "profile" && <Profile id={second ?? ""} overview={overview} />}
        {first === "compare" && <Two title="Compare" path="/compare" names={["From", "To"]} overview={overview} show={(page) => <WithParts watch={page}><ComparisonView page={page as ComparisonPage} diagnose={whyOf(page as ComparisonPage, query)} /></WithParts>} />}
        {first === "diagnose" && <Two title="Diagnose" path="/diagnose" names={["Normal", "Abnormal"]} overview={overview} show={(page) => <WithParts watch={page}><DiagnosisView page={page as DiagnosisPage} /></WithParts>} alone={(id) => <Alone id={id} overview={overview} />} />}
        {first === "ranks" && <><h1>Ranks</h1><Answer<RanksPage> path={`/api/ranks?of=${encodeURIComponent(query.get("of") ?? "")}`} wait={<Waiting ids={(query.get("of") ?? "").split(",")} overview={overview} />} show={(page) => <><p class="path faint">{page.title}</p><WithParts watch={page}><RanksView page={page} /></WithParts></>} /></>}
        {first === "bench" && <><h1>Benchmark</h1><Answer<BenchPage> path={`/api/bench?${part(query, OF)}`} show={(page) => <><Choice name="suite" title="Suite" value={page.leaderboard.suite} all={page.suites} /><Choice name="device" title="GPU" value={page.leaderboard.device} all={page.devices} /><BenchView page={page} /></>} /><RunDiff overview={overview} /></>}
        {first === "corpus" && <CorpusView total={overview.value?.corpus?.profiles ?? 0} />}
        {first === "suite" && <SuiteView overview={overview.value} operator={second} />}
        {first && !["profile", "compare", "diagnose", "ranks", "bench", "corpus", "suite"].includes(first) && <><h1>Page not found</h1><p>The address may be out of date, or belong to another dashboard. <Link to="/">All profiles</Link></p></>}
      </main>
    </>
  );
}

/** The diagnosis of two profiles that are compared: the slower one is the abnormal one. */
function whyOf(page: ComparisonPage, query: URLSearchParams): string {
  const ids = [query.get("a") ?? "", query.get("b") ?? ""].map(encodeURIComponent);
  const [before, after] = page.headline.figures;
  if (before && after && before.value > after.value) ids.reverse();
  return `/diagnose?a=${ids[0]}&b=${ids[1]}`;
}

const VIEWS: Record<string, string> = { compare: "Compare", diagnose: "Diagnose", ranks: "Ranks", bench: "Benchmark", corpus: "Profile store", suite: "Operator suite" };

/** What a view is about, for the browser's tabs and history. */
function titleOf(first: string | undefined, second: string | undefined, query: URLSearchParams, overview: Overview | null): string {
  const label = (id: string | null | undefined) => overview?.profiles.find((one) => one.id === id)?.label;
  if (!first) return "Profiles";
  if (first === "profile") return label(second) ?? "Profile";
  const about = first === "suite" ? second : [label(query.get("a")), label(query.get("b"))].filter(Boolean).join(first === "diagnose" ? " → " : " · ");
  return [about, VIEWS[first] ?? "No page"].filter(Boolean).join(" · ");
}

/** One profile, and where to go from it. */
function Profile({ id, overview }: { id: string; overview: Asked<Overview> }) {
  const { query } = useAddress();
  const path = overview.value?.profiles.find((one) => one.id === id)?.path;
  const name = path === undefined ? "Profile" : fileName(path);
  const to = encodeURIComponent(id);
  return (
    <>
      <h1><Breaking text={name} /></h1>
      {overview.value && path === undefined && <p><Link to="/">All profiles</Link></p>}
      {path !== undefined && name !== path && <p class="faint path"><Breaking text={path} /></p>}
      {path !== undefined && <div class="choose"><HardwareChoice overview={overview} /><ModelChoice overview={overview} /></div>}
      <Answer<ProfilePage> key={id} path={`/api/profile/${to}?${part(query, COSTED)}`} wait={<Waiting ids={[id]} overview={overview} />} show={(page) => (
        <WithParts watch={page}>
          <p class="choose"><Link to={`/compare?a=${to}`}>Compare with another</Link>  · <Link to={`/diagnose?a=${to}`}>Diagnose: its slow steps, or against a normal run</Link>{page.operators && <> · <a href={below(`/profile/${to}/perfetto.json.gz`)} download title="The whole trace with tracks of steps, layers, roles and idle time; open the file at ui.perfetto.dev">Download for Perfetto</a></>}</p>
          <ProfileView page={page} address={`/api/profile/${to}`} whatIf={query.get("hardware") && page.hotspots?.hardware !== recordedOn(page) ? query.get("hardware") : null} />
        </WithParts>
      )} />
    </>
  );
}

/** The GPU of a recording as the list of hardware has it, where its name says so. */
const recordedOn = (page: ProfilePage): string | undefined => page.roofs && page.summary.devices.some((name) => name.includes(page.roofs?.name ?? "?")) ? page.roofs.name : undefined;

function HardwareChoice({ overview }: { overview: Asked<Overview> }) {
  const { path, query } = useAddress();
  return (
    <label class="field">Bounds of{" "}
      <select value={query.get("hardware") ?? ""} onChange={(event) => go(withChanges(path, { hardware: event.currentTarget.value }))}>
        <option value="">the recorded GPU</option>
        {overview.value?.hardware.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

export function Answer<T>({ path, show, wait }: { path: string; show: (value: T) => ComponentChildren; wait?: ComponentChildren }) {
  const answer = ask<T>(path);
  if (answer.error) return <Problem text={answer.error} />;
  return answer.value ? <>{show(answer.value)}</> : <>{wait ?? <p class="faint" aria-live="polite">Reading…</p>}</>;
}

/** How often to look what the server is doing, in ms. */
const LOOK = 400;

/** Profiles that are being read for the first time: which they are, how large, and what is being done. */
function Waiting({ ids, overview }: { ids: string[]; overview: Asked<Overview> }) {
  const [long, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), LOOK);
    return () => clearTimeout(timer);
  }, []);
  const working = ask<Working[]>(long ? "/api/working" : null, LOOK);
  const entries = overview.value?.profiles.filter((one) => ids.includes(one.id)) ?? [];
  return (
    <ul class="working" role="status">
      {entries.map((one) => {
        const now = working.value?.find((work) => work.id === one.id);
        return <li key={one.id}><strong>{fileName(one.label)}</strong>{one.bytes !== null && `, ${bytes(one.bytes)}`}: {now ? <>{now.stage}<span aria-hidden="true">, {now.seconds.toFixed(1)} s so far</span>…</> : "reading…"}<span class="faint block">{one.path}</span></li>;
      })}
      {!entries.length && <li class="faint">Reading…</li>}
    </ul>
  );
}

/** Send one file; whether it was taken, and what to say about it. */
async function upload(file: File, store: boolean): Promise<[boolean, string]> {
  try {
    const answer = await fetch(below(`/api/upload?name=${encodeURIComponent(file.name)}${store ? "&store=1" : ""}`), { method: "POST", body: file, headers: { "X-Solscope": "1" } });
    const body = (await answer.json()) as { error?: string; stored?: boolean };
    if (!answer.ok) return [false, body.error ?? `the server answered ${answer.status}`];
    return [true, `added${store ? (body.stored ? ", and to the store" : "; the store had it already") : ""}`];
  } catch {
    return [false, "not sent: the server does not answer"];
  }
}

/** Profiles dropped here, or chosen, go to the server one after another. */
function Upload({ done, toStore }: { done: () => void; toStore: boolean }) {
  const [lines, setLines] = useState<string[]>([]);
  const [store, setStore] = useState(false);
  const send = async (files: FileList | null | undefined) => {
    for (const file of files ?? []) {
      setLines((before) => [...before, `${file.name}: sending ${bytes(file.size)}…`]);
      const [ok, said] = await upload(file, store);
      setLines((before) => [...before.slice(0, -1), `${file.name}: ${said}`]);
      if (ok) done();
    }
  };
  return (
    <div class="drop" onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); void send(event.dataTransfer?.files); }}>
      <label>Drop profiles here, or <input type="file" multiple onChange={(event) => void send(event.currentTarget.files)} /></label>
      {toStore && <label class="block"><input type="checkbox" checked={store} onChange={(event) => setStore(event.currentTarget.checked)} /> Add them to the profile store as well</label>}
      <ul aria-live="polite">{lines.map((line, at) => <li key={at}>{line}</li>)}</ul>
    </div>
  );
}

/** Which results of several are shown. */
const OF = ["suite", "device"];

/** Go to the benchmark as it is, but for one thing. */
function choose(query: URLSearchParams, name: string, value: string): void {
  const next = part(query, name === "suite" ? ["a", "b"] : [...OF, "a", "b"]);
  next.set(name, value);
  go(`/bench?${next}`);
}

/** Results of several suites or GPUs are shown one at a time. */
function Choice({ name, title, value, all }: { name: string; title: string; value: string; all: string[] }) {
  const { query } = useAddress();
  if (all.length < 2) return null;
  return (
    <label class="field">{title}{" "}
      <select value={value} onChange={(event) => choose(query, name, event.currentTarget.value)}>
        {all.map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    </label>
  );
}

/** Two solutions of the results, shape by shape. */
function RunDiff({ overview }: { overview: Asked<Overview> }) {
  const { query } = useAddress();
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const names = overview.value?.solutions ?? [];
  return (
    <Section id="diff" title="Compare two solutions" about="Faster or slower only if the interval shows it; otherwise: cannot tell.">
      {(["a", "b"] as const).map((side) => (
        <label key={side} class="field">{side.toUpperCase()}{" "}
          <select value={side === "a" ? a : b} onChange={(event) => choose(query, side, event.currentTarget.value)}>
            <option value="">choose a solution</option>
            {names.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
      ))}
      {a && b && <Answer<Contrast> key={`${a} ${b}`} path={`/api/bench/compare?${part(query, ["a", "b", ...OF])}`} show={(found) => <>
        <p class="sentence">{found.sentence}</p>
        <Diverging operators={found.operators} a={a} b={b} />
        <Table caption="Shapes" rows={found.shapes} most={25} sort={{ id: "ratio", down: false }} search={(row) => row.operator} columns={[
          { id: "operator", title: "Operator", text: true, long: true, value: (row) => row.operator },
          { id: "shape", spare: 1, title: "#", text: true, tight: true, value: (row) => row.shape },
          { id: "a", title: "A", value: (row) => row.a_us, time: "us" },
          { id: "b", title: "B", value: (row) => row.b_us, time: "us" },
          { id: "ratio", title: "B / A", value: (row) => row.ratio, show: (row) => row.ratio.toFixed(3) },
          { id: "interval", spare: 3, title: "Interval", value: (row) => row.low, show: (row) => `${row.low.toFixed(3)} to ${row.high.toFixed(3)}` },
          { id: "verdict", spare: 2, title: "B is", text: true, tight: true, value: (row) => row.verdict },
        ]} />
      </>} />}
    </Section>
  );
}

interface TwoProps { title: string; path: string; names: [string, string]; overview: Asked<Overview>; show: (page: unknown) => ComponentChildren; /** What is shown of the first one while there is no second. */ alone?: (id: string) => ComponentChildren }

/** Whether the steps of one recording are steady, and what its slow ones have in common. */
function Alone({ id, overview }: { id: string; overview: Asked<Overview> }) {
  const of = encodeURIComponent(id);
  return (
    <Answer<SinglePage> key={id} path={`/api/diagnose/${of}`} wait={<Waiting ids={[id]} overview={overview} />} show={(page) => (
      <WithParts watch={page}>
        <p class="about">This recording alone: are its steps steady, and what do slow ones have in common? A normal run to compare it with tells causes apart. <Link to={`/profile/${of}`}>See where its time goes</Link>.</p>
        <SingleView page={page} address={`/profile/${of}`} />
      </WithParts>
    )} />
  );
}

/** Two profiles and what the server says about them. */
function Two({ title, path, names, overview, show, alone }: TwoProps) {
  const { query } = useAddress();
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const profiles = overview.value?.profiles ?? [];
  const other = path === "/compare" ? { path: "/diagnose", name: "Diagnose" } : { path: "/compare", name: "Compare" };
  const two = (first: string, second: string) => `?a=${encodeURIComponent(first)}&b=${encodeURIComponent(second)}`;
  const pick = (side: "a" | "b", id: string) => go(path + two(side === "a" ? id : a, side === "b" ? id : b));
  // One recording has no place beside another yet: it is neither the normal nor the abnormal one.
  const single = Boolean(alone) && Boolean(a) && !b;
  const name = profiles.find((profile) => profile.id === a)?.label ?? "a recording";
  return (
    <>
      <h1>{single ? <>{title} <Breaking text={name} /></> : title}</h1>
      {single && <div class="choose">
        <label class="field">Recording{" "}
          <select value={a} onChange={(event) => pick("a", event.currentTarget.value)}>
            <option value="">choose a profile</option>
            {profiles.map((profile) => <option key={profile.id} value={profile.id}>{profile.label}</option>)}
          </select>
        </label>
        <label class="field">Compare with the normal run{" "}
          <select value="" onChange={(event) => go(path + two(event.currentTarget.value, a))}>
            <option value="">choose a profile</option>
            {profiles.filter((profile) => profile.id !== a).map((profile) => <option key={profile.id} value={profile.id}>{profile.label}</option>)}
          </select>
        </label>
      </div>}
      {!single && <div class="choose">
        {(["a", "b"] as const).map((side, at) => (
          <label key={side} class="field">{names[at]}{" "}
            <select value={side === "a" ? a : b} onChange={(event) => pick(side, event.currentTarget.value)}>
              <option value="">choose a profile</option>
              {profiles.map((one) => <option key={one.id} value={one.id}>{one.label}</option>)}
            </select>
          </label>
        ))}
        {a && b && <button type="button" onClick={() => go(path + two(b, a))}>Swap</button>}
        {a && b && <> <Link to={other.path + two(a, b)}>{other.name} these two</Link></>}
      </div>}
      {a && b ? <Answer<unknown> key={`${path} ${a} ${b}`} path={`/api${path}${two(a, b)}`} show={show} wait={<Waiting ids={[a, b]} overview={overview} />} /> : a && alone ? alone(a) : <p class="about">Choose two profiles{alone && ", or one to diagnose on its own"}.</p>}
    </>
  );
}
