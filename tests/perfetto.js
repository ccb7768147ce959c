// Ask Perfetto's own trace processor: `node perfetto.js ENGINE_FOLDER TRACE SQL...` prints the rows of each query.
//
// The engine is the worker of Perfetto's page: it is handed a port, and speaks protocol buffers over it
// (protos/perfetto/trace_processor/trace_processor.proto).
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, trace, ...queries] = process.argv.slice(2);

// What a worker has. The engine looks for node, in which it was never built to run.
process.type = "renderer";
console.log = console.warn = () => {};
Object.assign(globalThis, {
    self: globalThis,
    location: { href: "http://localhost/engine.js" },
    WorkerGlobalScope: class {},
    XMLHttpRequest: class {
        open(_, url) { this.url = url; }
        send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, path.basename(this.url)))); }
    },
});
process.on("uncaughtException", (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
});

// Protocol buffers.
const VARINT = 0, FIXED64 = 1, BYTES = 2;

function varint(n) {
    const bytes = [];
    for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
    return Buffer.from([...bytes, n]);
}
const number = (key, value) => Buffer.concat([varint(key * 8 + VARINT), varint(value)]);
const bytes = (key, data) => Buffer.concat([varint(key * 8 + BYTES), varint(data.length), data]);

class Reader {
    constructor(data) { this.data = data; this.at = 0; }
    get more() { return this.at < this.data.length; }
    varint() {
        for (let value = 0n, shift = 0n; ; shift += 7n) {
            const byte = this.data[this.at++];
            value |= BigInt(byte & 127) << shift;
            if (byte < 128) return Number(BigInt.asIntN(64, value));
        }
    }
    take(length) { return this.data.subarray(this.at, this.at += length); }
    *fields() {
        while (this.more) {
            const key = this.varint(), kind = key & 7;
            yield [key >> 3, kind === VARINT ? this.varint() : this.take(kind === FIXED64 ? 8 : this.varint())];
        }
    }
    *packed() { while (this.more) yield this.varint(); }
}
const fields = (data) => new Reader(Buffer.from(data)).fields();

// Requests and their answers; the engine answers before the call returns.
let columns = [], rows = [];

function fail(message) { throw new Error(message); }

function readResult(data) {
    for (const [key, value] of fields(data)) {
        if (key === 1) columns.push(value.toString());
        if (key === 2) fail(value.toString());
        if (key === 3) readBatch(value);
    }
}
function readBatch(data) {
    const kinds = [], integers = [], floats = [], texts = [];
    for (const [key, value] of fields(data)) {
        if (key === 1) kinds.push(...new Reader(value).packed());
        if (key === 2) integers.push(...new Reader(value).packed());
        if (key === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
        if (key === 5) texts.push(...value.toString().split("\0").slice(0, -1));
    }
    const cells = kinds.map((kind) => [null, null, integers, floats, texts][kind]?.shift() ?? null);
    while (cells.length) rows.push(cells.splice(0, columns.length));
}
const port = {
    postMessage(data) {
        for (const [, message] of fields(data)) {
            for (const [key, value] of fields(message)) {
                if (key === 5) fail(value.toString());
                if (key === 201) for (const [part, text] of fields(value)) if (part === 2) fail(text.toString());
                if (key === 203) readResult(value);
            }
        }
    },
};
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
let sequence = 0;
function call(method, argument = Buffer.alloc(0)) {
    const message = Buffer.concat([number(1, ++sequence), number(2, method), argument]);
    port.onmessage({ data: new Uint8Array(bytes(1, message)) });
}

function run() {
    const data = fs.readFileSync(trace);
    for (let at = 0; at < data.length; at += 1 << 22) call(APPEND, bytes(101, data.subarray(at, at + (1 << 22))));
    call(FINALIZE);
    const answers = queries.map((sql) => {
        columns = [], rows = [];
        call(QUERY, bytes(103, bytes(1, Buffer.from(sql))));
        return rows;
    });
    process.stdout.write(JSON.stringify(answers), () => process.exit(0));
}

vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
onmessage({ data: port });
setTimeout(run, 0); // what is left of its start are promises
