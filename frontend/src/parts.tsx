// Small parts that every page uses.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { categoryColor } from "./colors";
import { choose, chosen, type Choice } from "./dark";
import { ms, NONE, percent, withMinus } from "./format";
import { WORDS } from "./glossary";
import { inTerms } from "./terms";
import { copy } from "./take";
import type { CoverageSummary, Figure, Headline, ProfileWarning } from "./types";

export type Severity = Headline["severity"];

/** How bad a verdict is, for those who do not see its color. */
const SEVERITIES: Record<Severity, string> = { bad: "time is lost", attention: "needs attention", good: "nothing wrong found", neutral: "for information" };

/** The verdict of a page: its sentence, marked by how bad it is. */
export function VerdictSection({ severity, title, children }: { severity: Severity; title: string; children: ComponentChildren }) {
  return (
    <section id="verdict" aria-labelledby="verdict-title" class={`verdict ${severity}`}>
      <h2 id="verdict-title">{title}</h2>
      <p class="hidden">{SEVERITIES[severity]}</p>
      {children}
    </section>
  );
}

/** What a page begins with: one sentence, what speaks for it, up to three figures and what they are about, and what to do: `todo`, or else what the library advises. */
export function Begin({ headline, severity, warnings = [], because = [], todo = null }: { headline: { sentence: string; figures: Figure[]; advice?: string | null; next?: string | null; legend?: string | null }; severity: Severity; warnings?: ProfileWarning[]; because?: string[]; todo?: ComponentChildren }) {
  const advice = headline.advice ?? (headline.next ? `Look further: \`${headline.next}\`` : null);
  return (
    <VerdictSection severity={severity} title="Verdict">
      <p class="sentence"><Terms text={headline.sentence} /></p>
      {because.length > 0 && <ul class="because">{because.map((line) => <li key={line}>{line}</li>)}</ul>}
      <Figures figures={headline.figures} />
      {todo ?? (advice && <p class="do"><strong><Sentence text={advice} /></strong></p>)}
      {headline.legend && <p class="about words">{headline.legend}</p>}
      {warnings.length > 0 && <Warnings warnings={warnings} />}
    </VerdictSection>
  );
}

/** The large figures of a verdict, each with what it is of. */
export function Figures({ figures }: { figures: Figure[] }) {
  if (!figures.length) return null;
  const write = ({ unit, value }: Figure): string => (unit === "ms" ? ms(value) : unit === "%" ? percent(value) : `×${value.toFixed(value >= 0.1 ? 2 : 4)}`);
  return <dl class="figures">{figures.map((one) => <div key={one.name}><dt><Terms text={one.name} /></dt><dd>{write(one)}</dd>{one.scope && <dd class="scope"><Terms text={one.scope} /></dd>}</div>)}</dl>;
}

/** What stands below the first thing to read: drawn when that can be seen. */
export function Later({ children }: { children: ComponentChildren }) {
  const [on, setOn] = useState(false);
  // Effects run after the frame that shows what is above, and in a hidden tab too.
  useEffect(() => setOn(true), []);
  return on ? <>{children}</> : null;
}

export function Section({ id, title, about, children }: { id: string; title: string; about?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {about && <p class="about">{about}</p>}
      {children}
    </section>
  );
}

/** A page with a list of its sections beside it, where there is room. */
export function WithParts({ watch, children }: { watch: unknown; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const [parts, setParts] = useState<[string, string][]>([]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    // The browser looked for this part before there was a page.
    let wanted = window.location.hash.slice(1);
    const list = () => {
      setParts([...element.querySelectorAll("section")].map((one) => [one.id, one.querySelector("h2")?.textContent ?? one.id]));
      const found = wanted && document.getElementById(wanted);
      if (!found) return;
      found.scrollIntoView();
      wanted = "";
    };
    list();
    // Parts below the first may come later.
    const observer = new MutationObserver(list);
    observer.observe(element, { childList: true });
    return () => observer.disconnect();
  }, [watch]);
  return (
    <div class="columns">
      <nav aria-label="Parts of this page" class="parts"><ul>{parts.map(([id, title]) => <li key={id}><a href={`#${id}`}>{title.split(":")[0]}</a></li>)}</ul></nav>
      <div ref={place} class="content">{children}</div>
    </div>
  );
}

/** Something that went wrong; what stands between backticks is code. */
export const Problem = ({ text }: { text: string }) => <p role="alert" class="warnings plain"><Sentence text={text} /></p>;

export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt><Terms text={name} /></dt>
          <dd>{value ?? NONE}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Bar({ share, color, label }: { share: number; color?: string; label?: string }) {
  const width = Math.max(0, Math.min(100, share));
  return (
    <span class="bar" role="img" aria-label={label ?? percent(share)}>
      <span style={{ width: `${width}%`, background: color ?? "var(--accent)" }} />
    </span>
  );
}

export const Dot = ({ category }: { category: string | null }) => <span class="dot" aria-hidden="true" style={{ background: categoryColor(category) }} />;

export function Warnings({ warnings }: { warnings: ProfileWarning[] }) {
  if (!warnings.length) return <p class="about">No warnings: nothing suggests that these numbers are unsafe.</p>;
  return (
    <ul class="warnings">
      {warnings.map((one, at) => (
        <li key={at} data-code={one.code}><Sentence text={asSentence(one.message)} /></li>
      ))}
    </ul>
  );
}

const COVERAGE: Record<string, string> = {
  linked_pct: "linked to a launch",
  classified_pct: "given a category",
  generic_pct: "of it by a generic rule",
  op_pct: "given an operator call",
  shapes_pct: "given shapes",
  operator_pct: "given a catalog operator by name",
  layer_pct: "given a layer or place",
  role_pct: "given a role",
};

export function CoverageTable({ coverage, more }: { coverage: CoverageSummary; more?: [string, number | null][] }) {
  const rows: [string, number | null][] = [...Object.entries(coverage).map(([name, value]): [string, number | null] => [COVERAGE[name] ?? name, value]), ...(more ?? [])];
  return (
    <div class="scroll">
      <table class="coverage">
        <caption class="hidden">Share of GPU time for which each fact is known</caption>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row" class="text">{name}</th>
              <td class="number">{percent(value)}</td>
              <td class="wide">{value !== null && <Bar share={value} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Copy the address of what is in sight, with all that was chosen. */
export function CopyLink() {
  const [done, setDone] = useState(false);
  return <button type="button" class="link" aria-live="polite" onClick={() => void copy(window.location.href).then((copied) => {
    setDone(copied);
    setTimeout(() => setDone(false), 2000);
  })}>{done ? "Copied" : "Copy link"}</button>;
}

export function ThemeChoice() {
  const [now, set] = useState<Choice>(chosen());
  const pick = (next: Choice) => {
    choose(next);
    set(next);
  };
  return (
    <select class="theme" aria-label="Colors" value={now} onChange={(event) => pick(event.currentTarget.value as Choice)}>
      <option value="auto">Auto</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

/** A sentence of the library: what stands between backticks is code. */
export const Sentence = ({ text }: { text: string }) => <>{text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : withMinus(part)))}</>;

/** A clause of the library as a sentence of its own. */
export const asSentence = (text: string): string => `${text[0]?.toUpperCase() ?? ""}${text.slice(1).replace(/\.$/, "")}.`;

/** Where a name may be broken: after `_`, `:` and the like, and before a capital. */
const ENDS = /(?<=[_,<>])(?=[^_,<>\s])|(?<=\/)(?=\w{3})|(?<=:)(?=[^:\s])|(?<=\.)(?=[a-zA-Z])|(?<=[a-z])(?=[A-Z])/;

/** A name that breaks where its words end. */
export const Breaking = ({ text }: { text: string }) => <>{text.split(ENDS).flatMap((part, at) => (at ? [<wbr key={at} />, part] : [part]))}</>;

/** What a word of the library means: its own entry, or the longest that it begins with. */
function meaningOf(text: string): string | undefined {
  const starts = Object.keys(WORDS).filter((word) => /[.:]$/.test(word) && text.startsWith(word)).sort((a, b) => b.length - a.length);
  return WORDS[text] ?? WORDS[starts[0] ?? ""];
}

/** A label or sentence whose terms are explained where one points at them. */
export const Terms = ({ text }: { text: string }) => <>{inTerms(withMinus(text)).map(([part, about], at) => (about ? <abbr key={at} title={about}>{part}</abbr> : part))}</>;

/** A word of the library, with its explanation where it has one. */
export function Word({ text }: { text: string | null | undefined }) {
  if (!text) return <>{NONE}</>;
  const about = meaningOf(text);
  return about ? <abbr title={about}><Breaking text={text} /></abbr> : <Breaking text={text} />;
}

/** A long name that can be opened whole. */
export function Name({ short, full }: { short: string; full: string }) {
  return short === full ? <span class="name"><Breaking text={full} /></span> : <details class="name"><summary><Breaking text={short} /></summary><code>{full}</code></details>;
}
