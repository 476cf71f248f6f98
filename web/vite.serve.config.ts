// Builds the pages of `prony serve`: a document, a script and a style sheet, written where prony embeds them.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** What the licence of uPlot asks for: it goes with the script that holds uPlot. */
function licence(): Plugin {
  const text = readFileSync(new URL("./node_modules/uplot/LICENSE", import.meta.url), "utf8");
  return {
    name: "licence",
    enforce: "post",
    generateBundle(_options, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type === "chunk") file.code = `${file.code}\n/*! uPlot\n${text}*/\n`;
      }
    },
  };
}

export default defineConfig({
  plugins: [licence()],
  build: {
    outDir: "../crates/prony-web/assets",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      input: "serve.html",
      output: { entryFileNames: "serve.js", assetFileNames: (asset) => (asset.names.some((name) => name.endsWith(".css")) ? "serve.css" : "[name][extname]") },
    },
  },
  // The server gives out the files below this path.
  base: "/assets/",
});
