// A report: one or several pages, with a list of their parts.
import { useEffect, useState } from "preact/hooks";
import { fileName } from "./format";
import { Keys } from "./keys";
import { BenchView } from "./pages/bench";
import { ComparisonView } from "./pages/comparison";
import { DiagnosisView } from "./pages/diagnosis";
import { ProfileView } from "./pages/profile";
import { RanksView } from "./pages/ranks";
import { SingleView } from "./pages/single";
import { params, setQuery } from "./params";
import { Breaking, CopyLink, ThemeChoice, WithParts } from "./parts";
import type { Page, ReportData } from "./types";

const titleOf = (page: Page): string => (page.kind === "profile" ? fileName(page.title) : page.title);

/** What a page is called where there are several. */
const TABS: Record<string, string> = { comparison: "Comparison", diagnosis: "Diagnosis", single: "Diagnosis", ranks: "Ranks" };

/** Pages of one kind, such as the ranks of two runs, are distinguished by their titles. */
const tabOf = (page: Page, all: Page[]): string => (all.filter((one) => one.kind === page.kind).length > 1 ? titleOf(page) : (TABS[page.kind] ?? titleOf(page)));

export function PageView({ page }: { page: Page }) {
  if (page.kind === "profile") return <ProfileView page={page} />;
  if (page.kind === "bench") return <BenchView page={page} />;
  if (page.kind === "single") return <SingleView page={page} />;
  if (page.kind === "ranks") return <RanksView page={page} />;
  return page.kind === "comparison" ? <ComparisonView page={page} /> : <DiagnosisView page={page} />;
}

export function Report({ data }: { data: ReportData }) {
  const [at, setAt] = useState(() => startPage(data.pages.length));
  const page = data.pages[at];
  useEffect(() => {
    document.title = page ? `${titleOf(page)} · solscope` : "solscope";
  }, [page]);
  useEffect(() => {
    const back = () => setAt(startPage(data.pages.length));
    window.addEventListener("popstate", back);
    return () => window.removeEventListener("popstate", back);
  }, []);
  if (!page) return <p>This report is empty.</p>;
  const open = (next: number) => {
    setAt(next);
    window.scrollTo(0, 0);
    setQuery(new URLSearchParams({ page: String(next + 1) }), false, "");
  };
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <header>
        <span class="brand">solscope</span>
        {data.pages.length > 1 && (
          <nav aria-label="Pages" class="pages">
            {data.pages.map((one, index) => <button key={index} type="button" title={one.title} aria-current={index === at ? "page" : undefined} onClick={() => open(index)}>{tabOf(one, data.pages)}</button>)}
          </nav>
        )}
        <CopyLink />
        <ThemeChoice />
      </header>
      <Keys />
      <main id="main">
        <WithParts watch={page}>
          <h1><Breaking text={titleOf(page)} /></h1>
          {page.title !== titleOf(page) && <p class="faint path"><Breaking text={page.title} /></p>}
          <PageView key={at} page={page} />
          <footer>Made by solscope {data.solscope}. This file works offline.</footer>
        </WithParts>
      </main>
    </>
  );
}

function startPage(count: number): number {
  const asked = Number(params().get("page") ?? "1") - 1;
  return Number.isInteger(asked) && asked >= 0 && asked < count ? asked : 0;
}
