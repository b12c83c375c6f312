# docker build -t rearview .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" rearview forecast sales.csv --horizon 28
#
# pip's own settings choose where packages come from: --build-arg PIP_EXTRA_INDEX_URL=... for CPU builds of torch.
FROM python:3.12-slim
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[excel]' && rm -rf /build
# Whoever runs it has a place for caches, even without an account in the image.
ENV HOME=/tmp
WORKDIR /data
ENTRYPOINT ["rearview"]
CMD ["--help"]
