import { defineConfig, type Plugin } from "vite";

// Two builds of one program: a script that reports carry inside, and modules that the dashboard serves.
const dashboard = process.env["SOLSCOPE_BUILD"] === "dashboard";

// The dashboard's script stands inside its page, from where a relative address would lead elsewhere.
const fromPage: Plugin = {
  name: "from-page",
  renderChunk: (code) => code.replace(/import\((["'`])\.\//g, "import($1/assets/"),
};

export default defineConfig({
  plugins: dashboard ? [fromPage] : [],
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    outDir: "../src/solscope/report/assets",
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    ...(dashboard
      ? { rollupOptions: { input: "src/main.tsx", output: { entryFileNames: "dashboard.js", chunkFileNames: "[name].js", assetFileNames: "app[extname]" } } }
      : { lib: { entry: "src/main.tsx", name: "solscope", formats: ["iife"], fileName: () => "app.js", cssFileName: "app" }, rollupOptions: { output: { inlineDynamicImports: true, assetFileNames: "app[extname]" } } }),
  },
  define: { "process.env.NODE_ENV": '"production"' },
});
