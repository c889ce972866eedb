// A GitHub on loopback whose GraphQL is GitHub's own schema, executed by graphql-js: a document that GitHub would refuse
// is refused here, priced by GitHub's published rules, and answered with GitHub's kinds of partial data.
//
//   node server.mjs [REPOSITORIES=5] [ITEMS=200]      prints "listening on http://127.0.0.1:PORT"
//
// The world: repositories o/r0, o/r1, …; every fourth item is a pull request. It is changed and watched through
//   POST /control/set      {"repo":"o/r0","number":1,"state":"CLOSED","stateReason":"COMPLETED"}   any field of an item
//   POST /control/comment  {"repo":"o/r0","number":1,"body":"…","login":"mona","association":"MEMBER"}
//   POST /control/fault    [{"path":"/graphql","times":1,"status":500,"headers":{},"body":"…"}]; {"reset":true} cuts the connection
//   POST /control/budget   {"remaining":0,"resetsIn":60}
//   GET  /control/stats    {"graphql":…,"rest":…,"points":…,"mostInFlight":…,"closestMs":…}; POST sets them to nothing
// It listens on 127.0.0.1 alone and ends with its standard input, so that it never outlives the test that started it.

import { createServer } from "node:http";
import { createHash } from "node:crypto";
import { schema as github } from "@octokit/graphql-schema";
import { GraphQLError, buildSchema, execute, parse, validate } from "graphql";
import { price } from "./price.mjs";

const [repositories, itemsEach] = [Number(process.argv[2] ?? 5), Number(process.argv[3] ?? 200)];
const schema = buildSchema(github.idl, { assumeValid: true });

const stamp = (ms) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
const started = Date.now() - 86_400_000;
let last = started;
// GitHub's times are whole seconds; two changes here never share one.
const tick = () => (last = Math.max(Math.floor(Date.now() / 1000) * 1000, last + 1000));

const repos = new Map();
const nodes = new Map();
for (let r = 0; r < repositories; r += 1) {
  const repo = { key: `o/r${r}`, number: 1000 + r, items: new Map() };
  repos.set(repo.key, repo);
  for (let n = 1; n <= itemsEach; n += 1) {
    const pr = n % 4 === 0;
    const item = {
      repo,
      number: n,
      id: `${pr ? "PR" : "I"}_${r}_${n}`,
      pr,
      title: `item ${n}`,
      body: "",
      state: "OPEN",
      stateReason: null,
      draft: false,
      updated: started,
      closed: null,
      association: "OWNER",
      login: "mona",
      labels: [],
      comments: [],
      closing: [],
      gone: null,
      movedTo: null,
    };
    repo.items.set(n, item);
    nodes.set(item.id, item);
  }
}

let budget = { limit: 5000, remaining: 5000, resetsAt: Date.now() + 3_600_000 };
let faults = [];
let inFlight = 0;
let lastStart = null;
const fresh = () => ({ graphql: 0, rest: 0, notModified: 0, points: 0, mostInFlight: 0, closestMs: null });
let stats = fresh();

const missing = (message) => new GraphQLError(message, { extensions: { kind: "NOT_FOUND" } });

function connection(list, { first, last: tail, after, before }) {
  let from = after ? Number(after) : 0;
  let to = before ? Number(before) : list.length;
  if (first != null) to = Math.min(to, from + first);
  else if (tail != null) from = Math.max(from, to - tail);
  return {
    totalCount: list.length,
    nodes: list.slice(from, to),
    pageInfo: {
      hasNextPage: to < list.length,
      hasPreviousPage: from > 0,
      startCursor: String(from),
      endCursor: String(to),
    },
  };
}

const actor = (login) =>
  login == null ? null : { __typename: login.endsWith("[bot]") ? "Bot" : "User", login };

const commentNode = (comment) => ({
  __typename: "IssueComment",
  id: comment.id,
  createdAt: stamp(comment.at),
  lastEditedAt: null,
  isMinimized: false,
  viewerDidAuthor: false,
  authorAssociation: comment.association,
  author: actor(comment.login),
  body: comment.body,
});

function itemNode(item) {
  return {
    __typename: item.pr ? "PullRequest" : "Issue",
    id: item.id,
    number: item.number,
    title: item.title,
    body: item.body,
    url: `https://github.com/${item.repo.key}/issues/${item.number}`,
    state: item.state,
    stateReason: ({ enableDuplicate }) =>
      item.stateReason === "DUPLICATE" && !enableDuplicate ? "NOT_PLANNED" : item.stateReason,
    isDraft: item.draft,
    mergedAt: item.state === "MERGED" ? stamp(item.closed) : null,
    closedAt: item.closed && stamp(item.closed),
    createdAt: stamp(started),
    updatedAt: stamp(item.updated),
    authorAssociation: item.association,
    author: actor(item.login),
    milestone: null,
    repository: () => repoNode(item.repo),
    labels: (args) => connection(item.labels.map((name) => ({ name })), args),
    assignees: (args) => connection([], args),
    comments: (args) => connection(item.comments.map(commentNode), args),
    closedByPullRequestsReferences: (args) =>
      connection(item.closing.map(([repo, number]) => itemNode(repos.get(repo).items.get(number))), args),
  };
}

function repoNode(repo) {
  const listed = (pr, { filterBy, orderBy }) => {
    const list = [...repo.items.values()].filter(
      (item) =>
        item.pr === pr &&
        !item.gone &&
        !item.movedTo &&
        (!filterBy?.since || stamp(item.updated) >= filterBy.since) &&
        (!filterBy?.states || filterBy.states.includes(item.state)) &&
        (!filterBy?.labels || filterBy.labels.some((label) => item.labels.includes(label))),
    );
    if (orderBy?.field === "UPDATED_AT") list.sort((a, b) => a.updated - b.updated);
    if (orderBy?.direction === "DESC") list.reverse();
    return list;
  };
  return {
    id: `R_${repo.number}`,
    nameWithOwner: repo.key,
    issueOrPullRequest: ({ number }) => {
      const item = repo.items.get(number);
      if (!item || item.gone || item.movedTo) {
        throw missing(`Could not resolve to an issue or pull request with the number of ${number}.`);
      }
      return itemNode(item);
    },
    issues: (args) => connection(listed(false, args).map(itemNode), args),
    pullRequests: (args) => connection(listed(true, args).map(itemNode), args),
    milestones: (args) => connection([], args),
  };
}

const root = (points) => ({
  viewer: { login: "mona" },
  rateLimit: {
    cost: points,
    limit: budget.limit,
    remaining: budget.remaining,
    resetAt: stamp(budget.resetsAt),
  },
  repository: ({ owner, name }) => {
    const repo = repos.get(`${owner}/${name}`.toLowerCase());
    if (!repo) throw missing(`Could not resolve to a Repository with the name '${owner}/${name}'.`);
    return repoNode(repo);
  },
  node: ({ id }) => (nodes.has(id) ? itemNode(nodes.get(id)) : null),
  nodes: ({ ids }) => ids.map((id) => (nodes.has(id) ? itemNode(nodes.get(id)) : null)),
});

async function graphql(body) {
  if (budget.remaining <= 0) {
    return { errors: [{ type: "RATE_LIMITED", message: "API rate limit already exceeded for user ID 1." }] };
  }
  let document;
  try {
    document = parse(body.query);
  } catch (error) {
    return { errors: [{ message: error.message }] };
  }
  const invalid = validate(schema, document);
  if (invalid.length > 0) {
    return { errors: invalid.map(({ message }) => ({ message, extensions: { code: "undefinedField" } })) };
  }
  const { points, complaints } = price(schema, document, body.variables ?? {});
  if (complaints.length > 0) {
    return { errors: complaints.map((message) => ({ type: "MAX_NODE_LIMIT_EXCEEDED", message })) };
  }
  stats.points += points;
  budget.remaining = Math.max(0, budget.remaining - points);
  const { data, errors } = await execute({
    schema,
    document,
    rootValue: root(points),
    variableValues: body.variables,
  });
  const told = errors?.map(({ message, path, extensions: { kind } }) => ({ type: kind, path, message }));
  return told ? { data, errors: told } : { data };
}

function rest(path, headers, base) {
  const match = /^\/(?:repos\/([^/]+\/[^/]+)|repositories\/(\d+))\/issues\/(\d+)$/.exec(path);
  const repo =
    match && (match[1] ? repos.get(match[1].toLowerCase()) : [...repos.values()].find((r) => r.number === Number(match[2])));
  const item = repo?.items.get(Number(match?.[3]));
  if (!item || item.gone === 404) return { status: 404, body: { message: "Not Found" } };
  if (item.gone === 410) return { status: 410, body: { message: "This issue was deleted" } };
  if (item.movedTo) {
    const [to, number] = item.movedTo;
    const location = `${base}/repositories/${repos.get(to).number}/issues/${number}`;
    return { status: 301, headers: { location }, body: { message: "Moved Permanently", url: location } };
  }
  const body = {
    node_id: item.id,
    number: item.number,
    title: item.title,
    state: item.state === "OPEN" ? "open" : "closed",
    state_reason: item.stateReason?.toLowerCase() ?? null,
    closed_at: item.closed && stamp(item.closed),
    updated_at: stamp(item.updated),
    repository_url: `${base}/repos/${item.repo.key}`,
    user: null,
    ...(item.pr && { draft: item.draft, pull_request: { merged_at: item.state === "MERGED" ? stamp(item.closed) : null } }),
  };
  const digest = createHash("sha256").update(`${headers.accept}:${headers.authorization}:${JSON.stringify(body)}`);
  const etag = `W/"${digest.digest("hex")}"`;
  if (headers["if-none-match"] === etag) {
    stats.notModified += 1;
    return { status: 304, headers: { etag } };
  }
  return { status: 200, headers: { etag }, body };
}

function control(method, path, body) {
  switch (path) {
    case "/control/stats": {
      const now = stats;
      if (method === "POST") {
        stats = fresh();
        lastStart = null;
      }
      return now;
    }
    case "/control/set": {
      const { repo, number, ...fields } = body;
      const item = repos.get(repo).items.get(number);
      Object.assign(item, fields);
      item.updated = tick();
      item.closed = item.state === "OPEN" ? null : (item.closed ?? item.updated);
      return {};
    }
    case "/control/comment": {
      const item = repos.get(body.repo).items.get(body.number);
      item.updated = tick();
      const comment = { association: "MEMBER", login: "mona", body: "", ...body, at: item.updated };
      comment.id = `IC_${item.id}_${item.comments.length}`;
      item.comments.push(comment);
      return { id: comment.id };
    }
    case "/control/fault":
      faults = body;
      return {};
    case "/control/budget":
      budget = { ...budget, ...body, resetsAt: Date.now() + (body.resetsIn ?? 3600) * 1000 };
      return {};
    default:
      return null;
  }
}

const server = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const path = new URL(request.url, "http://x").pathname;
  const send = (status, headers, body) => {
    response.writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers });
    response.end(body == null ? undefined : typeof body === "string" ? body : JSON.stringify(body));
  };
  if (path.startsWith("/control/")) {
    const answer = control(request.method, path, text ? JSON.parse(text) : {});
    return answer ? send(200, {}, answer) : send(404, {}, {});
  }

  inFlight += 1;
  stats.mostInFlight = Math.max(stats.mostInFlight, inFlight);
  response.on("close", () => (inFlight -= 1));
  const now = performance.now();
  if (lastStart != null) stats.closestMs = Math.min(stats.closestMs ?? Infinity, now - lastStart);
  lastStart = now;

  const api = path.replace(/^\/api(\/v3)?(?=\/)/, "");
  const isGraphql = api === "/graphql";
  stats[isGraphql ? "graphql" : "rest"] += 1;
  const limits = () => ({
    "x-ratelimit-limit": budget.limit,
    "x-ratelimit-remaining": budget.remaining,
    "x-ratelimit-reset": Math.floor(budget.resetsAt / 1000),
    "x-ratelimit-resource": isGraphql ? "graphql" : "core",
  });
  const fault = faults.find(({ path: part = "", times = 1 }) => times > 0 && path.includes(part));
  if (fault) {
    fault.times = (fault.times ?? 1) - 1;
    if (fault.reset) return request.socket.destroy();
    return send(fault.status ?? 500, { ...limits(), ...fault.headers }, fault.body ?? { message: "Server Error" });
  }
  if (!request.headers["user-agent"]) return send(403, {}, "Request forbidden by administrative rules.");
  if (!request.headers.authorization) return send(401, limits(), { message: "Requires authentication" });
  if (isGraphql) {
    const answer = await graphql(JSON.parse(text));
    return send(200, limits(), answer);
  }
  const base = `http://${request.headers.host}${path.startsWith("/api/v3") ? "/api/v3" : ""}`;
  const { status, headers, body } = rest(api, request.headers, base);
  send(status, { ...limits(), ...headers }, body);
});

server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
