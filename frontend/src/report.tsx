// A report: one or several pages, with a list of their parts.
import { useEffect, useState } from "preact/hooks";
import { fileName } from "./format";
import { BenchView } from "./pages/bench";
import { ComparisonView } from "./pages/comparison";
import { DiagnosisView } from "./pages/diagnosis";
import { ProfileView } from "./pages/profile";
import { ThemeChoice } from "./parts";
import type { Page, ReportData } from "./types";

const titleOf = (page: Page): string => (page.kind === "profile" ? fileName(page.title) : page.title);

export function PageView({ page }: { page: Page }) {
  if (page.kind === "profile") return <ProfileView page={page} />;
  if (page.kind === "bench") return <BenchView page={page} />;
  return page.kind === "comparison" ? <ComparisonView page={page} /> : <DiagnosisView page={page} />;
}

export function Report({ data }: { data: ReportData }) {
  const [at, setAt] = useState(() => startPage(data.pages.length));
  const page = data.pages[at];
  const [parts, setParts] = useState<[string, string][]>([]);
  useEffect(() => {
    setParts([...document.querySelectorAll("main section")].map((one) => [one.id, one.querySelector("h2")?.textContent ?? one.id]));
    document.title = page ? `${titleOf(page)} · solscope` : "solscope";
  }, [page]);
  if (!page) return <p>This report has no page.</p>;
  const open = (next: number) => {
    setAt(next);
    window.scrollTo(0, 0);
  };
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header>
        <span class="brand">solscope</span>
        {data.pages.length > 1 && (
          <nav aria-label="Pages" class="pages">
            {data.pages.map((one, index) => <button key={index} type="button" aria-current={index === at ? "page" : undefined} onClick={() => open(index)}>{titleOf(one)}</button>)}
          </nav>
        )}
        <ThemeChoice />
      </header>
      <div class="columns">
        <nav aria-label="Parts of this page" class="parts"><ul>{parts.map(([id, title]) => <li key={id}><a href={`#${id}`}>{title.split(":")[0]}</a></li>)}</ul></nav>
        <main id="main">
          <h1>{titleOf(page)}</h1>
          {page.title !== titleOf(page) && <p class="faint path">{page.title}</p>}
          <PageView key={at} page={page} />
          <footer>Made by solscope {data.solscope}. Nothing in this file is loaded from elsewhere.</footer>
        </main>
      </div>
    </>
  );
}

function startPage(count: number): number {
  const asked = Number(new URLSearchParams(window.location.search).get("page") ?? "1") - 1;
  return Number.isInteger(asked) && asked >= 0 && asked < count ? asked : 0;
}
