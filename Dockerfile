# Two images from one source tree:
#   docker build --tag fenchel .                            every command
#   docker build --tag fenchel-client --target client .     the commands of a party and of a server
# Builds with the legacy builder and with BuildKit. BASE is any image with Python 3.11 or newer, its venv module and
# pip; pin it by its digest: --build-arg BASE=python@sha256:…
ARG BASE=python:3.11-slim-bookworm

# The dependencies are in layers of their own: a change of the source does not install or copy them again. Each file is
# checked by its hash in constraints.txt.
FROM ${BASE} AS dependencies
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml constraints.txt ./
COPY deploy/install.py deploy/
RUN python3 deploy/install.py /opt/venv --dependencies-only \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} +

FROM dependencies AS full-dependencies
RUN python3 deploy/install.py /opt/venv --dependencies-only --extra full \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} +

FROM dependencies AS build
COPY README.md LICENSE ./
COPY common common
COPY server server
COPY client client
COPY deploy deploy
RUN python3 deploy/install.py /opt/venv --target /opt/fenchel \
    && mkdir /opt/fenchel/share && cp deploy/compose/*.toml /opt/fenchel/share/ \
    && chmod -R a+rX /opt/fenchel

FROM ${BASE} AS runtime
LABEL org.opencontainers.image.title="fenchel" \
      org.opencontainers.image.description="Hybrid federated learning of convex models, encrypted and certified" \
      org.opencontainers.image.licenses="GPL-3.0-or-later"
RUN groupadd --system --gid 10001 fenchel \
    && useradd --system --uid 10001 --gid fenchel --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin fenchel \
    && install -d -o fenchel -g fenchel -m 0700 /kit /data /state
# One thread for each linear algebra call: the matrices are small, and a machine may run many parties.
ENV PATH=/opt/fenchel/bin:/opt/venv/bin:$PATH PYTHONPATH=/opt/fenchel \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
USER 10001:10001
WORKDIR /state
ENTRYPOINT ["fenchel"]
CMD ["--help"]

FROM runtime AS client
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=build /opt/fenchel /opt/fenchel

FROM runtime
# A new volume takes owner and mode of the directory that it covers first, and no container is root to change them
# afterwards. Therefore every folder that docker-compose.yml mounts a volume on exists here. Files that `provision` hands
# to a member are in /handed/MEMBER and belong to the member's group; the member's other folders belong to the member.
USER root
RUN install -d -o 10001 -g 10001 -m 0700 /kits \
    && id=10010 && for member in server hospital-1 hospital-2 hospital-3 hospital-4; do \
           install -d -o 10001 -g "$id" -m 2750 "/handed/$member" \
           && install -d -o "$id" -g "$id" -m 0700 "/state/$member" || exit 1; \
           id=$((id + 1)); \
       done \
    && chmod 0711 /state && install -d -o 10010 -g 10010 -m 0700 /results
USER 10001:10001
COPY --from=full-dependencies /opt/venv /opt/venv
COPY --from=build /opt/fenchel /opt/fenchel
