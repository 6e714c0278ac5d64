// A report carries its pages inside; the dashboard asks its server for them.
import { render } from "preact";
import { choose } from "./dark";
import { Report } from "./report";
import "./style.css";
import type { ReportData } from "./types";

choose("auto");
const data = document.getElementById("solscope-data")?.textContent;
const place = document.getElementById("app");
if (data && place) render(<Report data={JSON.parse(data) as ReportData} />, place);
