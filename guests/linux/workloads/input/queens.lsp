; All solutions of the queens' puzzle by lists, and the function of Takeuchi.
(define (attacks? column distance placed)
  (and placed
       (let (other (first placed))
         (or (= other column)
             (= (abs (- other column)) distance)
             (attacks? column (+ distance 1) (rest placed))))))

(define (place n row placed)
  (if (= row n)
      1
      (let (found 0)
        (for (column 1 n)
          (unless (attacks? column 1 placed)
            (inc found (place n (+ row 1) (cons column placed)))))
        found)))

(define (queens n) (place n 0 '()))

(define (tak x y z)
  (if (>= y x)
      z
      (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))

(dotimes (pass 3)
  (set 'solutions (map queens '(4 5 6 7 8 9)))
  (set 'value (tak 18 12 6)))
(println (join (map string solutions) " "))
(println value)
(exit)
