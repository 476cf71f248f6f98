#!/usr/bin/env bash
# Fetches Jetty from Maven Central by Maven, checks every file against the sums below, and puts it where labs look for it
# (~/.cache/prony/jetty-VERSION). It does nothing when all is there.
#
# usage: jetty.sh
set -euo pipefail

VERSION=12.0.23
SLF4J=2.0.17
FOLDER=${PRONY_JETTY:-${XDG_CACHE_HOME:-$HOME/.cache}/prony/jetty-$VERSION}
SUMS="
c3f0241496a1c71c7050bcd9de0531e66ec09087ffecd9ba951fe33f2456cf42 jetty-server-$VERSION.jar
2abcaace6620fc33ae1858009079baa801702990eec664b8847722206945589d jetty-http-$VERSION.jar
6974d8e9be69d39b2c0308d44699cef0d96132bbb636abf0e1226184b66b1b5e jetty-io-$VERSION.jar
742518cb7ce7151fa2b6c54819e9b65204c0f9da1193812261fa5655618e2c97 jetty-util-$VERSION.jar
7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832 slf4j-api-$SLF4J.jar
"

say() { printf 'jetty: %s\n' "$*"; }
die() { printf 'jetty: %s\n' "$*" >&2; exit 1; }

# Whether a folder holds every file as it should be.
is_whole() {
    sed '/^$/d; s/ /  /' <<<"$SUMS" | (cd "$1" 2>/dev/null && sha256sum --check --status -)
}

# Jetty names what it needs in the same version, and SLF4J in the one that stands above.
pom() {
    cat <<END
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>prony</groupId>
  <artifactId>jetty</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.eclipse.jetty</groupId><artifactId>jetty-server</artifactId><version>$VERSION</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>$SLF4J</version></dependency>
  </dependencies>
</project>
END
}

main() {
    if is_whole "$FOLDER"; then
        say "Jetty $VERSION is in $FOLDER"
        return 0
    fi
    command -v mvn >/dev/null 2>&1 || die "Maven is missing (no mvn): run 'apt-get install maven'"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    pom >"$scratch/pom.xml"
    say "fetching Jetty $VERSION from Maven Central"
    mvn --batch-mode --quiet --file "$scratch/pom.xml" dependency:copy-dependencies -DoutputDirectory="$scratch/jars" ||
        die "Maven could not fetch it: is Maven Central reachable from here?"
    is_whole "$scratch/jars" || die "what Maven fetched is not what was asked for: $(cd "$scratch/jars" && sha256sum ./*.jar)"
    mkdir -p "$FOLDER"
    mv -f "$scratch"/jars/*.jar "$FOLDER"
    say "Jetty $VERSION is in $FOLDER"
}

main "$@"
