// Says hello from every hart it is placed on.
#include "loiter.h"

LOITER_TASK(hello) {
    loiter_start_together();
    loiter_print("hello from hart %u\n", loiter_hart());
}
