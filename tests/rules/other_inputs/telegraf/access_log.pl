my @EDGES = qw(0.1 1);
