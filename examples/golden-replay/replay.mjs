// Replays golden lines on a process that speaks the protocol, with no Python: node replay.mjs GOLDEN.jsonl COMMAND [ARGUMENT…]
// Exit 0: every scenario that the process can play is as upstream; 1: one is not; 2: the process gave no answer.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";

const [file, command, ...rest] = process.argv.slice(2);
const [header, ...golden] = readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
const child = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] });
child.on("error", (error) => fail(error.message));
child.stdin.on("error", () => {}); // a process that is gone shows when its answer is awaited
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
let seq = 0;

function fail(reason) {
  console.error(`replay: ${reason}`);
  process.exit(2);
}

async function answer() {
  const { value, done } = await lines.next();
  if (done) fail("the process ended without an answer");
  const message = JSON.parse(value);
  if (message.seq !== seq || message.error) fail(`no answer to ${seq}: ${value}`);
  return message;
}

async function ask(question) {
  child.stdin.write(JSON.stringify({ seq: ++seq, ...question }) + "\n");
  return answer();
}

const { hello } = await ask({ op: "hello" });
const can = (need) => hello.capabilities === "all" || (hello.capabilities ?? []).includes(need);
let played = 0;
let wrong = 0;
for (const { scenario, observation, needs } of golden) {
  if (!needs.every(can)) continue;
  const steps = [];
  let message = await ask({ op: "run", scenario });
  for (; message.step; message = await answer()) steps.push(message.step);
  const seen = scenario.level === "schedule" ? { ...message.end, steps } : message.end;
  played += 1;
  if (!isDeepStrictEqual(seen, observation)) {
    wrong += 1;
    console.log(`${scenario.id}: not as vLLM ${header.version}`);
  }
}
child.stdin.end(JSON.stringify({ seq: ++seq, op: "stop" }) + "\n");
console.log(`${played} of ${golden.length} played, ${wrong} not as vLLM ${header.version}`);
process.exit(wrong ? 1 : 0);
