// The parts of ECharts that charts here use. Large, so the dashboard loads it beside the first tables.
import { BarChart, CustomChart, LineChart, ScatterChart, TreemapChart } from "echarts/charts";
import { DataZoomComponent, GridComponent, LegendPlainComponent, TooltipComponent } from "echarts/components";
import { init, setPlatformAPI, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([
  BarChart, CustomChart, LineChart, ScatterChart, TreemapChart,
  DataZoomComponent, GridComponent, LegendPlainComponent, TooltipComponent,
  SVGRenderer,
]);

const ruler = document.createElement("canvas").getContext("2d");
let font = "";

// ECharts takes the width of a Chinese character for the height of a line: looking for a font that has one, and for
// fonts with control characters, takes longer than drawing the chart. That character is as wide as its font is high.
setPlatformAPI({
  measureText: (text: string, wanted?: string) => {
    const chosen = wanted ?? "12px sans-serif";
    const height = Number.parseFloat(/[\d.]+(?=px)/.exec(chosen)?.[0] ?? "12");
    if (text === "国") return { width: height };
    if (text.length === 1 && text < " ") return { width: 0 };
    if (!ruler) return { width: 0.6 * height * text.length };
    if (font !== chosen) ruler.font = font = chosen;
    return ruler.measureText(text);
  },
});

export { init };
