#!/usr/bin/perl
# Counts the requests in access logs as a Prometheus histogram: for Telegraf's inputs.exec, which runs it every few
# seconds.
#
#     access_log.pl LOG...
#
# reads what was appended to the logs since the last run, through rotation and truncation, and prints the totals since
# the first. A line is Apache's or nginx's common or combined format, or nginx's main, which has one more field in quotes,
# with the time as one more field at the end: microseconds (Apache's %D) if it is an integer, seconds if it has three
# decimals (nginx's $request_time). Among fields with names (KEY=VALUE), it is the one called rt or request_time.
#
#     access_log.pl --check LOG...
#
# prints how many of the last lines of each log parse, why others don't, and the smallest, median and largest time, with
# a warning where these look like another unit. It changes nothing.
#
# Totals and positions are in a file for each log in $STATE_DIRECTORY (/var/lib/telegraf), replaced atomically by each
# run: nothing is lost or counted twice, whatever is killed. docs/sensors.md says why Telegraf's own inputs.tail and
# aggregators.histogram can't do this. It needs nothing but Perl 5.14 or newer (Debian's perl-base, which is Essential).
use strict;
use warnings;

# As in Fcntl and Errno, which take as long to load as a run without new lines.
my ($LOCK_EX, $SEEK_SET, $ENOENT) = (2, 0, 2);

# Upper edges in seconds of the histogram's buckets. `make rules` reads them from this line: the threshold of an
# objective has to be one of them.
my @EDGES = qw(0.005 0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.25 0.3 0.4 0.5 0.75 1 1.5 2 3 5 10);
my @EDGES_MICROSECONDS = map { sprintf '%.0f', $_ * 1e6 } @EDGES;
my @NO_REQUESTS        = (0) x (1 + @EDGES + 1);    # microseconds, then requests up to each edge, and above the last

# All label values that are possible, whatever is in a log. The usual series exist from the start, at 0: rate() misses a
# series' first value, which would be the first errors of an application that had none before.
my @METHODS        = qw(GET POST other);
my @USUAL_STATUSES = qw(2xx 3xx 4xx 5xx);
my %STATUS_CLASS   = map { $_ => /[1-5]/ ? "${_}xx" : 'other' } 0 .. 9;    # by the first digit

my $QUOTED = qr/"(?:[^"\\]++|\\.)*+"/;    # both programs escape quotes and backslashes inside with a backslash
my $COMMON = qr{
    ^(?:\S+\ )?\S+\ \S+\ (?:""|(?:[^"\\]|\\.)*?)        # virtual host, client, identity, user: "" is one without a name
    \ \[\d\d/[A-Z][a-z][a-z]/\d{4}(?::\d\d){3}\ [-+]\d{4}\]
    \ "(?:(GET|POST)\ )?(?:[^"\\]++|\\.)*+"\ (\d)\d\d\ (?:\d+|-)
}x;

# Visitors control quoted text (a header "0.123"), so a quoted time must have its name before it.
my $NAMED_TIME = qr{\b(?:rt|request_time)=}x;
my $VALUE      = qr{(?:$QUOTED|[^\s"=,]*+(?:(?:,\ ?|\ :\ )[^\s"=,]++)*+)}x;    # nginx's times of several upstreams: 0.1, 0.2 : 0.3
my $OTHER      = qr{\ (?:$QUOTED|(?!$NAMED_TIME)[A-Za-z_]\w*+=$VALUE)}x;

# Both capture method, status class, seconds or microseconds, decimals. The common one is tried first.
my $LINE = qr{
    $COMMON
    (?:\ $QUOTED\ $QUOTED(?:\ $QUOTED)*+)?              # referer and agent of the combined format, and what follows them
    \ (\d{1,12})(?:\.(\d{3}))?\r?$
}x;
my $NAMED_LINE = qr{
    $COMMON$OTHER*+
    \ $NAMED_TIME(?|(\d{1,12})(?:\.(\d{3}))?|"(\d{1,12})(?:\.(\d{3}))?")$OTHER*+\r?$
}x;

# A line is written when its request ends: a duration of more than a day is something else, such as a Unix time ($msec).
my $MAX_MICROSECONDS  = 86_400 * 1e6;
my $DAY_MONTH_YEAR    = qr{\[(\d\d)/([A-Z][a-z][a-z])/(\d{4}):};
my %DAYS_BEFORE_MONTH = (
    Jan => 0, Feb => 31, Mar => 59, Apr => 90, May => 120, Jun => 151, Jul => 181, Aug => 212, Sep => 243, Oct => 273,
    Nov => 304, Dec => 334,
);

my $SECONDS_PER_RUN = 2;         # a backlog takes several runs, as Telegraf kills one that has not ended in 5
my $BYTES_PER_READ  = 1 << 20;   # also the longest line: a longer one counts as several that don't parse
my $HEAD_BYTES      = 512;       # of a file's first line, which together with the inode identifies the file
my $REMEMBERED      = 20;        # files that are gone and may reappear
my $CHECKED_BYTES   = 1 << 18;   # at a log's end, by --check

umask 077;    # a state file contains first lines of logs
my $check = @ARGV && $ARGV[0] eq '--check' && shift @ARGV;
@ARGV or die "usage: access_log.pl [--check] LOG...\n";
exit((grep { !is_understood($_) } @ARGV) ? 1 : 0) if $check;
my $time_is_up;
local $SIG{ALRM} = sub { $time_is_up = 1 };
alarm $SECONDS_PER_RUN;

my @complaints;
my %requests = map {
    my $method = $_;
    map { ("$method $_" => [@NO_REQUESTS]) } @USUAL_STATUSES
} @METHODS;
my ($lines, $unparsed) = (0, 0);
my %named;
for my $log (@ARGV) {
    my $identity = join ' ', (stat $log)[0, 1];
    if ($identity and my $other = $named{$identity}) { push @complaints, "$log is read as $other already\n"; next }
    $named{$identity} = $log;
    my $state = eval { updated_state($log) };
    if ($@) { push @complaints, $@; next }
    $lines    += $state->{lines};
    $unparsed += $state->{unparsed};
    while (my ($labels, $figures) = each %{$state->{requests}}) {
        my $total = $requests{$labels} //= [@NO_REQUESTS];
        $total->[$_] += $figures->[$_] for 0 .. $#$figures;
    }
}
die @complaints if @complaints;    # no totals rather than incomplete ones
print exposition();

# The state of a log after all new lines have been counted and saved. It is
# {files => [{inode, head, offset}], lines, unparsed, requests => {"GET 2xx" => [microseconds, requests per bucket]}}
# where `files` are the log and its rotated versions.
sub updated_state {
    my ($log) = @_;
    my ($folder) = split /:/, $ENV{STATE_DIRECTORY} || '/var/lib/telegraf';    # systemd's form: one or several
    my $path = "$folder/" . $log =~ s{([%/])}{sprintf '%%%02X', ord $1}ger;

    # Two sensors may read the same log: they take turns, and both print its totals.
    open my $lock, '>>', "$path.lock" or die "cannot write $path.lock: $!\n";
    flock $lock, $LOCK_EX or die "cannot lock $path.lock: $!\n";

    # An unreadable log is reported after its rotated versions were counted, but in the first run at once: its present
    # lines must not be counted once it becomes readable.
    my $state   = saved_state($path);
    my $trouble = trouble_reading($log);
    die $trouble if $trouble and !$state->{files} and (-e $log or $! != $ENOENT);
    my ($found, @gone) = recognised([open_files($log)], $state->{files});
    count_lines($_, $state) for @$found;
    $state->{files} = [@$found, splice @gone, 0, $REMEMBERED];
    save_state($path, $state);
    die $trouble if $trouble;
    return $state;
}

# Why a log can't be read, '' if it can: found by opening it, as its mode doesn't show what an ACL allows.
sub trouble_reading {
    my ($log) = @_;
    return "$log is not a file\n" if -e $log and !-f _;
    return open(my $handle, '<', $log) ? '' : "cannot read $log: $!\n";
}

# The log and its rotated versions, open: {path, handle, inode, head, size, is_log}. Files without a complete first
# line have nothing to count yet, and can't be identified.
sub open_files {
    my ($log) = @_;
    my ($folder, $name) = $log =~ m{^(.*/)?([^/]+)$} or die "$log is not a file's name\n";
    $folder //= './';
    opendir my $entries, $folder or die "cannot list $folder: $!\n";
    my @files;
    for my $entry (sort grep { /^\Q$name\E(?:[.-]|$)/ } readdir $entries) {
        my %file = (path => "$folder$entry", is_log => $entry eq $name);
        next if !-f $file{path} or !open $file{handle}, '<:raw', $file{path};
        @file{qw(inode size)} = (stat $file{handle})[1, 7];
        sysread($file{handle}, my $head, $HEAD_BYTES) // die "cannot read $file{path}: $!\n";
        $head =~ s/\n.*/\n/s or length $head == $HEAD_BYTES or next;
        $file{head} = unpack 'H*', $head;
        push @files, \%file;
    }
    return @files;
}

# Those of the open files that are to be read, each with the offset where the last run ended; then the known ones that
# are gone, the last seen first.
sub recognised {
    my ($open, $known) = @_;
    my @found;
    my @rules = (
        sub { $_[0]{head} eq $_[1]{head} && $_[0]{inode} == $_[1]{inode} },    # the same file, whatever its name
        sub { $_[0]{head} eq $_[1]{head} },                                    # its copy, as made by copytruncate
    );
    my @missing = @{$known // []};
    for my $rule (@rules) {
        @missing = grep {
            my $known = $_;
            my ($file) = grep { !defined $_->{offset} && $_->{size} >= $known->{offset} && $rule->($_, $known) } @$open;
            if ($file) { $file->{offset} = $known->{offset}; push @found, $file }
            !$file;
        } @missing;
    }
    # A log not seen before is counted from its start, except on the very first run: its older lines would look like
    # a burst. Other unknown files are ignored.
    for my $file (grep { $_->{is_log} && !defined $_->{offset} } @$open) {
        $file->{offset} = $known ? 0 : $file->{size};
        push @found, $file;
    }
    return (\@found, @missing);
}

# Counts a file's complete lines from its offset on, and moves the offset past the last of them.
sub count_lines {
    my ($file, $state) = @_;
    sysseek $file->{handle}, $file->{offset}, $SEEK_SET or die "cannot seek in $file->{path}: $!\n";
    my $text = '';
    while (!$time_is_up) {
        my $read = sysread $file->{handle}, $text, $BYTES_PER_READ, length $text;
        defined $read or die "cannot read $file->{path}: $!\n";
        last if !$read;
        my $end = rindex($text, "\n") + 1;
        $end = length $text if !$end and length $text >= $BYTES_PER_READ;
        $file->{offset} += $end;
        my @lines = split /\n/, substr($text, 0, $end, ''), -1;
        pop @lines if @lines and $lines[-1] eq '';    # what is behind the last line's end
        count_line($_, $state) for @lines;
    }
}

sub count_line {
    my ($line, $state) = @_;
    $state->{lines}++;
    my ($method, $status, $microseconds) = request($line) or do { $state->{unparsed}++; return };
    my $figures = $state->{requests}{($method // 'other') . " $STATUS_CLASS{$status}"} //= [@NO_REQUESTS];
    my $bucket = 0;
    $bucket++ while $bucket < @EDGES_MICROSECONDS and $microseconds > $EDGES_MICROSECONDS[$bucket];
    $figures->[0] += $microseconds;
    $figures->[1 + $bucket]++;
}

# Method, first digit of the status, microseconds, and whether they were an integer; nothing of a line that doesn't parse.
sub request {
    my ($line) = @_;
    return if $line !~ $LINE and $line !~ $NAMED_LINE;
    my @found = ($1, $2, defined $4 ? "$3$4" * 1000 : $3, !defined $4);
    return if $found[2] >= 1e9 and ($found[2] > $MAX_MICROSECONDS or $found[3] && is_date_of($line, $found[2]));
    return @found;
}

# Whether an integer is a line's own date in Unix seconds (%{sec}t), give or take time zones and leap years.
sub is_date_of {
    my ($line, $number) = @_;
    my ($day, $month, $year) = $line =~ $DAY_MONTH_YEAR;
    return abs($number / 86_400 - ($year - 1970) * 365.2425 - ($DAYS_BEFORE_MONTH{$month} // 0) - $day) < 3;
}

sub saved_state {
    my ($path) = @_;
    my %new = (saved => '', lines => 0, unparsed => 0, requests => {});
    -e $path or return \%new;
    open my $in, '<:raw', $path or die "cannot read $path: $!\n";
    my $edges = <$in> // '';
    my %state = (%new, saved => $edges, files => []);
    while (my $line = <$in>) {
        $state{saved} .= $line;
        chomp $line;
        my ($kind, @values) = split / /, $line;
        if    ($kind eq 'lines')    { @state{qw(lines unparsed)} = @values }
        elsif ($kind eq 'file')     { my %file; @file{qw(inode offset head)} = @values; push @{$state{files}}, \%file }
        elsif ($kind eq 'requests') { $state{requests}{"$values[0] $values[1]"} = [@values[2 .. $#values]] }
        elsif ($kind eq 'end')      { $edges eq "edges @EDGES\n" or $state{requests} = {}; return \%state }
    }
    unlink $path;
    die "$path was damaged: deleted, the next run starts over\n";
}

sub save_state {
    my ($path, $state) = @_;
    my $text = join '', "edges @EDGES\n", "lines $state->{lines} $state->{unparsed}\n",
        map({ "file $_->{inode} $_->{offset} $_->{head}\n" } @{$state->{files}}),
        map({ "requests $_ @{$state->{requests}{$_}}\n" } sort keys %{$state->{requests}}), "end\n";
    return if $text eq $state->{saved};    # don't wake the disk of an idle application
    open my $out, '>:raw', "$path.new" or die "cannot write $path.new: $!\n";
    print $out $text or die "cannot write $path.new: $!\n";
    close $out and rename "$path.new", $path or die "cannot write $path: $!\n";
}

# Prints how many of a log's last lines parse, and one of each kind of those that don't; returns whether all do.
sub is_understood {
    my ($log) = @_;
    my $trouble = trouble_reading($log);
    if ($trouble) { print $trouble; return }
    open my $handle, '<:raw', $log or die "cannot read $log: $!\n";
    my $size = -s $handle;
    sysseek $handle, $size > $CHECKED_BYTES ? $size - $CHECKED_BYTES : 0, $SEEK_SET or die "cannot seek in $log: $!\n";
    sysread($handle, my $text, $CHECKED_BYTES) // die "cannot read $log: $!\n";
    $text =~ s/^[^\n]*\n// if $size > $CHECKED_BYTES;    # an incomplete line
    $text =~ s/[^\n]+\z//;                               # one that is still being written
    my @lines = split /\n/, $text, -1;
    pop @lines;                                          # what is behind the last line's end
    my (@strange, @times, %like, %many);
    my $has_integers = 0;
    for my $line (@lines) {
        my (undef, undef, $microseconds, $is_integer) = request($line) or do { push @strange, $line; next };
        $has_integers ||= $is_integer;
        push @times, $microseconds;
    }
    printf "%s: %d of the last %d lines parse\n", $log, scalar @times, scalar @lines;
    @times = sort { $a <=> $b } @times;
    my $median = $times[$#times / 2];
    printf "  times: smallest %s, median %s, largest %s\n", map { with_unit($_) } $times[0], $median, $times[-1] if @times;
    print "  warning: $_\n" for @times ? doubts($has_integers, @times) : ();
    for my $line (@strange) {
        my $why = why_not($line);
        $many{$why}++;
        $like{$why} = $line;
    }
    for my $why (sort { $many{$b} <=> $many{$a} || $a cmp $b } keys %many) {
        my $example = substr $like{$why}, 0, 300;
        $example =~ s/([^ -~])/sprintf '\\x%02X', ord $1/ge;    # it goes to a terminal
        print "  $many{$why}: $why, as in\n    $example\n";
    }
    return !@strange;
}

sub with_unit {
    my ($microseconds) = @_;
    return $microseconds < 1e6 ? sprintf('%.3f ms', $microseconds / 1e3) : sprintf('%.3f s', $microseconds / 1e6);
}

# What is strange about sorted times: what another unit makes of them.
sub doubts {
    my ($has_integers, @times) = @_;
    my $integers = 'integers are read as microseconds (%D), not as seconds (%T) or milliseconds (%{ms}T, %D of Tomcat 9)';
    my $many     = @times;
    my $zero     = grep { $_ == 0 } @times;
    my $tiny     = grep { $_ < 100 } @times;
    my @doubts;
    if ($zero == $many) {
        push @doubts, "all times are 0: " . ($has_integers ? $integers : 'does the log round them?');
    } elsif (!grep { $_ % 1e6 } @times) {
        push @doubts, 'all times are whole seconds: does the log round them?';
    } elsif ($has_integers and $zero || $tiny * 10 >= $many) {
        push @doubts, "$tiny of $many times are below 0.1 ms: $integers";
    } elsif ($has_integers and $times[-1] < 5_000) {
        push @doubts, "no time reaches 5 ms: right for a fast server; $integers";
    }
    push @doubts, 'half of the times are above 10 s: are these milliseconds ($request_time has seconds), or nanoseconds (%D has microseconds)?'
        if $times[$#times / 2] > 10e6;
    return @doubts;
}

# Why a line doesn't parse, and what to do.
sub why_not {
    my ($line) = @_;
    $line =~ s/$COMMON//
        or return 'not the common format: client, identity, user, [day/Mon/year:time zone], "request", status and size';
    $line =~ s/\r$//;
    my $behind = $line;
    $behind =~ s/^(?:\ $QUOTED)*+//;
    return 'the time has two names: keep rt= or request_time=' if (() = $behind =~ /$NAMED_TIME/g) > 1;
    return 'not a plausible time: more than a day, or a Unix time ($msec, %{sec}t): log how long the request took'
        if $behind =~ /(?:^ |$NAMED_TIME"?)(?:\d{10}|\d{5,}\.)/;
    return 'the time has to be whole microseconds (%D), or seconds with three decimals ($request_time)'
        if $behind =~ /^ (?:[-+]?[\d.]+(?:e[-+]?\d+)?[a-z]*|[-+]?(?:nan|inf\w*))$|$NAMED_TIME/i;
    return 'the time is in quotes, as a header of a visitor is: write $request_time without them, or rt="$request_time"'
        if $line =~ /"\d+(?:\.\d{3})?"$/;
    return 'other fields without a name stand beside the time: name it (rt=$request_time), or put them into quotes before it'
        if $behind =~ /\ \d+(?:\.\d{3})?(?:\ |$)/;
    return 'no time: add it at the end of the format, %D (Apache) or $request_time (nginx)';
}

sub exposition {
    my $text = "# TYPE app_request_duration_seconds histogram\n";
    for my $key (sort keys %requests) {
        my ($method, $status) = split / /, $key;
        my ($microseconds, @buckets) = @{$requests{$key}};
        my $labels = qq(method="$method",status="$status");
        my $count = 0;
        for my $edge (@EDGES, '+Inf') {
            $count += shift @buckets;
            $text .= qq(app_request_duration_seconds_bucket{$labels,le="$edge"} $count\n);
        }
        my $seconds = sprintf '%d.%06d', $microseconds / 1e6, $microseconds % 1e6;
        $text .= "app_request_duration_seconds_sum{$labels} $seconds\n";
        $text .= "app_request_duration_seconds_count{$labels} $count\n";
    }
    return $text
        . "# TYPE app_log_lines_total counter\napp_log_lines_total $lines\n"
        . "# TYPE app_log_lines_unparsed_total counter\napp_log_lines_unparsed_total $unparsed\n";
}
