# One image for every role: `docker run fenchel server …`, `docker run fenchel client …`.
# Builds with the legacy builder and with BuildKit. BASE is any image with Python 3.11 or newer, its venv module and pip.
ARG BASE=python:3.11-slim-bookworm

# The dependencies are in a layer of their own: a change of the source does not install or copy them again.
FROM ${BASE} AS dependencies
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv --without-pip /opt/venv
WORKDIR /src
COPY pyproject.toml constraints.txt ./
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
        > requirements.txt \
    && pip --python /opt/venv/bin/python install --constraint constraints.txt --requirement requirements.txt \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} +

FROM dependencies AS build
COPY README.md LICENSE ./
COPY common common
COPY server server
COPY client client
COPY deploy deploy
RUN pip --python /opt/venv/bin/python install --no-deps --target /opt/fenchel . \
    && mkdir /opt/fenchel/share && cp deploy/compose/*.toml /opt/fenchel/share/ \
    && chmod -R a+rX /opt/fenchel

FROM ${BASE}
LABEL org.opencontainers.image.title="fenchel" \
      org.opencontainers.image.description="Hybrid federated learning of convex models, encrypted and certified" \
      org.opencontainers.image.licenses="GPL-3.0-or-later"
# A new volume takes the owner of the directory that it covers first, and no container is root to change it afterwards.
# Therefore every place that docker-compose.yml mounts a volume on exists here.
RUN groupadd --system --gid 10001 fenchel \
    && useradd --system --uid 10001 --gid fenchel --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin fenchel \
    && for party in hospital-1 hospital-2 hospital-3 hospital-4; do \
           install -d -o fenchel -g fenchel -m 0700 "/kits/$party" "/shards/$party"; \
       done \
    && install -d -o fenchel -g fenchel -m 0700 /kits/ca /kits/server /kit /data /state /results
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=build /opt/fenchel /opt/fenchel
# One thread for each linear algebra call: the matrices are small, and a machine may run many parties.
ENV PATH=/opt/fenchel/bin:/opt/venv/bin:$PATH PYTHONPATH=/opt/fenchel \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
USER 10001:10001
WORKDIR /state
ENTRYPOINT ["fenchel"]
CMD ["--help"]
