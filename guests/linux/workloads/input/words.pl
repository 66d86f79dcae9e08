# Counts the words of a text, groups those of the same letters, and finds primes by a pattern that does not match them.
use strict;
use warnings;

my (%count, %family);
for my $pass (1 .. 4) {
    open my $text, '<', $ARGV[0] or die "$ARGV[0]: $!\n";
    while (my $line = <$text>) {
        for my $word (map { lc } $line =~ /[A-Za-z]+/g) {
            next if $count{$word}++;
            push @{ $family{ join '', sort split //, $word } }, $word;
        }
    }
}
my $total = 0;
$total += $_ for values %count;
my $largest = (sort { @{ $family{$b} } <=> @{ $family{$a} } || $a cmp $b } keys %family)[0];
my @common = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my @primes = grep { (1 x $_) !~ /^1?$|^(11+?)\1+$/ } 1 .. 400;
printf "%d words, %d different, %d families, most often %s, primes %d\n", $total, scalar @common,
    scalar keys %family, $common[0], scalar @primes;
print join(' ', sort @{ $family{$largest} }), "\n";
