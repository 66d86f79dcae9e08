// Calls what README.md's examples define, and checks what they did.
#include <stdio.h>

#include <loiter/wait.h>

void add_one(long *count);
void move(long *from, long *to, long amount, long *lines);
struct loiter_policy choose_policy(void);
long look(void);
void pay(long amount);

int main(void) {
    long count = 1, from = 10, to = 0, lines = 0;
    struct loiter_policy policy = choose_policy();
    add_one(&count);
    move(&from, &to, 4, &lines);
    pay(5);
    pay(7);
    if (count != 2 || from != 6 || to != 4 || lines != 1 || look() != 12 ||
        (policy.method != LOITER_NAP && policy.method != LOITER_PAUSE)) {
        fprintf(stderr, "error: README.md's examples do not do what they say\n");
        return 1;
    }
    printf("examples good\n");
    return 0;
}
