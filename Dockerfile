# The stand-alone server on Node. Agents and their configuration are mounted at /app/agents, the database is in /data:
#   docker build -t greenroom .
#   docker run -p 2024:2024 -v greenroom:/data -v ./agents:/app/agents:ro -e GREENROOM_API_KEYS=… greenroom
# docs/operations/deployment.md says more.
FROM node:24-slim AS package
WORKDIR /package
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm pack --silent && mv greenroom-*.tgz greenroom.tgz
# What adapters load where they are asked to, as it was tested.
RUN node -p "const { peerDependencies: peers, devDependencies: tested } = require('./package.json'); \
    Object.keys(peers).filter((name) => tested[name] && !name.includes('bun')).map((name) => name + '@' + tested[name]).join(' ')" > peers

FROM node:24-slim AS app
WORKDIR /app
COPY --from=package /package/greenroom.tgz /package/peers ./
# The tarball stays: an image that is made from this one may install more.
RUN npm install --omit=dev --ignore-scripts --no-audit --no-fund ./greenroom.tgz $(cat peers) && rm peers && mkdir agents data

FROM node:24-slim
ENV NODE_ENV=production \
    GREENROOM_HOST=0.0.0.0 \
    GREENROOM_PORT=2024 \
    GREENROOM_DATABASE=/data/greenroom.db \
    GREENROOM_GRACE_MS=7000
COPY --from=app /app /app
# A volume that is made for it takes over its owner.
COPY --from=app --chown=node:node /app/data /data
WORKDIR /app/agents
USER node
VOLUME /data
EXPOSE 2024
STOPSIGNAL SIGTERM
# That it can execute runs; whether it should get requests is what /ready says.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.GREENROOM_PORT}/ok`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Not by npm, which would stand between the server and its signals.
ENTRYPOINT ["node", "/app/node_modules/greenroom/dist/adapters/standalone/bin.js"]
