// A report carries its pages inside; the dashboard asks its server for them.
import { render } from "preact";
import { Dashboard } from "./dashboard";
import { choose } from "./dark";
import { Report } from "./report";
import "./style.css";
import type { ReportData } from "./types";

choose("auto");
const place = document.getElementById("app");
const data = document.getElementById("solscope-data")?.textContent;
if (place && data) render(<Report data={JSON.parse(data) as ReportData} />, place);
else if (place && document.body.dataset["solscope"] === "dashboard") render(<Dashboard />, place);
