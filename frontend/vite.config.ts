import { defineConfig } from "vite";

// One script and one style sheet, which reports carry inside and the dashboard serves.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    outDir: "../src/solscope/report/assets",
    emptyOutDir: false,
    cssCodeSplit: false,
    lib: { entry: "src/main.tsx", name: "solscope", formats: ["iife"], fileName: () => "app.js", cssFileName: "app" },
    rollupOptions: { output: { assetFileNames: "app[extname]" } },
  },
  define: { "process.env.NODE_ENV": '"production"' },
});
