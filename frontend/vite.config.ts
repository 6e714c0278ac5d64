import { defineConfig, type Plugin } from "vite";

// Two builds of one program: a script that reports carry inside, and modules that the dashboard serves.
const dashboard = process.env["SOLSCOPE_BUILD"] === "dashboard";

// The dashboard's script stands inside its page, from where a relative address would lead elsewhere.
const fromPage: Plugin = {
  name: "from-page",
  renderChunk: (code) => code.replace(/import\((["'`])\.\//g, "import($1/assets/"),
};

// Most of the engine runs for the first chart. Compiled as a whole while it arrives, on another core, that chart does not
// have to wait for one function after another.
const compiledWhole: Plugin = {
  name: "compiled-whole",
  generateBundle: (_, bundle) => {
    for (const chunk of Object.values(bundle)) if (chunk.type === "chunk" && chunk.name === "engine") chunk.code = `//# allFunctionsCalledOnLoad\n${chunk.code}`;
  },
};

export default defineConfig({
  plugins: dashboard ? [fromPage, compiledWhole] : [],
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
