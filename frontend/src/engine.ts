// The parts of ECharts that charts here use. Large, so the dashboard loads it beside the first tables.
import { BarChart, CustomChart, LineChart, ScatterChart, TreemapChart } from "echarts/charts";
import { AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([
  BarChart, CustomChart, LineChart, ScatterChart, TreemapChart,
  AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent,
  SVGRenderer,
]);

export { init };
