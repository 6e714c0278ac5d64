import { defineConfig } from "vite";

// One script and one style, which reports carry inside and the dashboard's page has as well.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    outDir: "../src/solscope/report/assets",
    emptyOutDir: false,
    cssCodeSplit: false,
    lib: { entry: "src/main.tsx", name: "solscope", formats: ["iife"], fileName: () => "app.js", cssFileName: "app" },
  },
  define: { "process.env.NODE_ENV": '"production"' },
});
