# Packages of another Debian suite than the machine's, from the same mirror and under the same key, without a change to
# the system: apt works on lists and a cache of its own. For scripts that have a function fail, to be read with '.'.

# shellcheck source=/dev/null
. /etc/os-release

# $1: a directory; $2: the suite. Writes a file of sources, made from the machine's own source for its release.
write_sources() {
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        # Stanzas are apart by empty lines; take the first whose suites name the release itself.
        awk -v RS= -v ORS='\n' -v release="${VERSION_CODENAME-}" \
            '$0 ~ "(^|\n)Suites:([^\n]* )?" release "( |\n|$)" { print; exit }' "$file" |
            sed -e '/^#/d' -e "s/^Suites:.*/Suites: $2/" -e 's/^Components:.*/Components: main/' >"$1/suite.sources"
        [ -s "$1/suite.sources" ] && return
    done
    rm -f "$1/suite.sources"
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        sed -n "s/^\(deb \(\[[^]]*\] \)\{0,1\}[^ ]* \)${VERSION_CODENAME-} .*/\1$2 main/p" | head -n 1 >"$1/suite.list"
    [ -s "$1/suite.list" ] || fail "this machine has no apt source for Debian ${VERSION_CODENAME-}"
}

# $1: a directory; $2: the suite. Afterwards APT_CONFIG=$1/apt.conf is for commands on that suite. With an empty status
# file apt believes that nothing is installed and fetches every dependency, libc first of all.
write_apt_configuration() {
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/sources"
    : >"$1/status"
    write_sources "$1/sources" "$2"
    cat >"$1/apt.conf" <<END
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$1/sources";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$1";
Dir::State::Lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
Acquire::Languages "none";
APT::Sandbox::User "";
APT::Keep-Downloaded-Packages "true";
APT::Install-Recommends "false";
Debug::NoLocking "true";
END
}
